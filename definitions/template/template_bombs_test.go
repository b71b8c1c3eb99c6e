package template

import (
	"strings"
	"testing"

	"github.com/perdure/perdure/internal/perduretest"
)

// templateBombs want much time or memory for little text. What they read is
// charged, so that each ends with the limit before long.
var templateBombs = map[string]string{
	"trunc":       `{{$s := repeat 5000000 "a"}}{{range until 100000}}{{$x := trunc 1 $s}}{{end}}`,
	"substr":      `{{$s := repeat 5000000 "a"}}{{range until 100000}}{{$x := substr 0 1 $s}}{{end}}`,
	"long cutset": `{{$c := repeat 5000000 "a"}}{{range until 100000}}{{$x := trimAll $c "b"}}{{end}}`,
	"replace":     `{{$s := repeat 5000000 "a"}}{{range until 100000}}{{$x := replace "a" "" $s}}{{end}}`,
	"trim":        `{{$s := repeat 5000000 " "}}{{range until 100000}}{{$x := trim $s}}{{end}}`,
	"nospace":     `{{$s := repeat 5000000 " "}}{{range until 100000}}{{$x := nospace $s}}{{end}}`,
	"clean":       `{{$s := repeat 1000000 "a/../"}}{{range until 100000}}{{$x := clean $s}}{{end}}`,
	"base":        `{{$s := repeat 5000000 "/"}}{{range until 100000}}{{$x := base $s}}{{end}}`,
	"splitList":   `{{$s := repeat 5000000 "a"}}{{range until 100000}}{{$x := splitList "aaab" $s}}{{end}}`,
	"eq":          `{{$a := print (repeat 5000000 "a") "x"}}{{$b := print (repeat 5000000 "a") "y"}}{{range until 100000}}{{$x := eq $a $b}}{{end}}`,
	"lt":          `{{$a := print (repeat 5000000 "a") "x"}}{{$b := print (repeat 5000000 "a") "y"}}{{range until 100000}}{{$x := lt $a $b}}{{end}}`,
	"has":         `{{$a := print (repeat 5000000 "a") "x"}}{{$b := print (repeat 5000000 "a") "y"}}{{$l := list}}{{range until 100}}{{$l = append $l $b}}{{end}}{{range until 100000}}{{$x := has $a $l}}{{end}}`,
	"regex":       `{{$s := repeat 5000000 "a"}}{{range until 100000}}{{$x := regexReplaceAll "b" "c" $s}}{{end}}`,
	"fromJson":    `{{$s := print "[" (repeat 1000000 "[],") "[]]"}}{{$l := list}}{{range until 100000}}{{$l = append $l (fromJson $s)}}{{end}}`,
	"split":       `{{$s := repeat 99999 ","}}{{$l := list}}{{range until 100000}}{{$l = append $l (split "," $s)}}{{end}}`,
	"dict":        `{{$l := list}}{{range until 100000}}{{$l = append $l (dict "a" 1)}}{{end}}`,
	"merge":       `{{$s := split "," (repeat 9999 ",")}}{{$l := list}}{{range until 100000}}{{$l = append $l (merge (dict) $s)}}{{end}}`,
	"atoi":        `{{$s := repeat 9999 "9"}}{{range until 100000}}{{$x := atoi $s}}{{end}}`,
	"float":       `{{$s := printf "1.%se0" (repeat 5000000 "9")}}{{range until 100000}}{{$x := float64 $s}}{{end}}`,
	"printf":      `{{range until 100000}}{{$x := printf "%9999d%9999d%9999d" 1 1 1}}{{end}}`,
	"printf x":    `{{$n := repeat 9999 "9"}}{{range until 100000}}{{$x := printf "%d" $n}}{{end}}`,
	"print":       `{{$n := int (repeat 9999 "9")}}{{range until 100000}}{{$x := print $n $n $n}}{{end}}`,
	"big float":   `{{$n := int (repeat 9999 "9")}}{{range until 100000}}{{$x := printf "%.9999f" $n}}{{end}}`,
	"pluck":       `{{$k := repeat 5000000 "k"}}{{$d := dict $k 1}}{{range until 100000}}{{$x := get $d $k}}{{end}}`,
	"index":       `{{$k := repeat 5000000 "k"}}{{$d := dict $k 1}}{{range until 100000}}{{$x := index $d $k}}{{end}}`,
	"pick":        `{{$k := repeat 5000000 "k"}}{{$d := dict $k 1}}{{range until 100000}}{{$x := hasKey $d $k}}{{end}}`,
	"quote":       `{{$s := repeat 100000 "\x01"}}{{range until 100000}}{{$x := quote $s}}{{end}}`,
	"join":        `{{$l := list}}{{range until 100000}}{{$l = append $l ""}}{{end}}`,
	"shared eq":   `{{$x := list 1}}{{$y := list 1}}{{range until 60}}{{$x = list $x $x}}{{$y = list $y $y}}{{end}}{{has $x (list $y)}}`,
	"reverse":     `{{$l := until 100000}}{{$k := list}}{{range until 100000}}{{$k = append $k (reverse $l)}}{{end}}`,
	"until":       `{{$k := list}}{{range until 100000}}{{$k = append $k (until 100000)}}{{end}}`,
	"compact":     `{{$l := until 100000}}{{$k := list}}{{range until 100000}}{{$k = append $k (compact $l)}}{{end}}`,
}

// TestTemplateBombs shows that reading is charged, and not only building.
func TestTemplateBombs(t *testing.T) {
	for _, name := range SortedKeys(templateBombs) {
		t.Run(name, func(t *testing.T) {
			template := perduretest.Must(Parse(templateBombs[name]))(t)
			if _, _, err := template.Expand(map[string]any{}, nil); err == nil || !strings.Contains(err.Error(), "limit MaxExpansionWork") {
				t.Errorf("it ended with %v", err)
			}
		})
	}
}

// TestLongCutset shows that letters are not looked for one by one.
func TestLongCutset(t *testing.T) {
	t.Parallel()
	template, err := Parse(`{{$s := repeat 1000000 "é"}}{{trimAll (printf "%sé" (repeat 1000000 "ü")) (print "é\xffé" $s "a\xff" $s)}}`)
	if err != nil {
		t.Fatal(err)
	}
	if got, _, err := template.Expand(nil, nil); err != nil || got != "\xffé"+strings.Repeat("é", 1000000)+"a\xff" {
		t.Errorf("it gave %.20q, %v", got, err)
	}
}
