// Command sbom prints the software bill of materials of a Go program as CycloneDX
// JSON, from what its build has noted in it.
package main

import (
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"runtime/debug"
)

type document struct {
	BOMFormat   string      `json:"bomFormat"`
	SpecVersion string      `json:"specVersion"`
	Version     int         `json:"version"`
	Metadata    metadata    `json:"metadata"`
	Components  []component `json:"components"`
}

type metadata struct {
	Component component `json:"component"`
}

type component struct {
	Type       string     `json:"type"`
	BOMRef     string     `json:"bom-ref"`
	Name       string     `json:"name"`
	Version    string     `json:"version"`
	PURL       string     `json:"purl"`
	Properties []property `json:"properties,omitempty"`
}

type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

func main() {
	log.SetFlags(0)
	if len(os.Args) != 3 {
		log.Fatal("usage: sbom PROGRAM VERSION")
	}
	info, err := buildinfo.ReadFile(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	info.Main.Version = os.Args[2] // which a checkout does not have
	doc := document{BOMFormat: "CycloneDX", SpecVersion: "1.6", Version: 1, Metadata: metadata{componentOf("application", &info.Main)}}
	doc.Components = append(doc.Components, component{Type: "platform", BOMRef: "go", Name: "Go", Version: info.GoVersion, PURL: "pkg:golang/std@" + info.GoVersion[len("go"):]})
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		doc.Components = append(doc.Components, componentOf("library", m))
	}
	out := json.NewEncoder(os.Stdout)
	out.SetIndent("", "  ")
	if err := out.Encode(doc); err != nil {
		log.Fatal(err)
	}
}

// componentOf is a module; its checksum is that of go.sum.
func componentOf(kind string, m *debug.Module) component {
	purl := fmt.Sprintf("pkg:golang/%s@%s", m.Path, m.Version)
	c := component{Type: kind, BOMRef: purl, Name: m.Path, Version: m.Version, PURL: purl}
	if m.Sum != "" {
		c.Properties = []property{{"go:sum", m.Sum}}
	}
	return c
}
