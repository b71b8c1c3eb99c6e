package gateway_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/registry"
)

func refTo(name, version string) definitions.Reference {
	return definitions.Reference{Name: name, Version: version}
}

// Which version a call is of is said in its _meta, and only composite tools have
// any. What is planned tells which one was found.
func TestCallOfAVersion(t *testing.T) {
	t.Parallel()
	w, published := newPublishing(t)
	for _, version := range []string{"1.0.0", "1.1.0", "2.0.0", "3.0.0-rc.1"} {
		w.mustPublish("open", version, "d")
	}
	if _, err := published.Deprecate(t.Context(), "ann", refTo("open", "1.1.0"), registry.Deprecation{Reason: "slow"}); err != nil {
		t.Fatal(err)
	}
	ann := connect(t, w.url, "ann", "2025-11-25", `{}`)
	for version, want := range map[string]string{
		"": "open 2.0.0:", "1": "open 1.0.0:", "^1.0": "open 1.0.0:", "1.1.0": "open 1.1.0:", " 2 ": "open 2.0.0:", "3.0.0-rc.1": "open 3.0.0-rc.1:",
	} {
		if m := ann.call(`"`+version+`"`, "open", `{}`, `{"perdure/dry-run":true,"perdure/version":"`+version+`"}`).result(false); !strings.Contains(m.text(), want) {
			t.Errorf("%q plans %s", version, m.text())
		}
	}
	if m := ann.call(`"own"`, "first_open", `{}`, `{"perdure/dry-run":true}`).result(false); !strings.Contains(m.text(), "open 1.0.0:") {
		t.Errorf("the version that is a tool of its own plans %s", m.text())
	}
	for version, want := range map[string]string{
		"3": "open has no version 3; known versions: 3.0.0-rc.1, 2.0.0, 1.1.0, 1.0.0", "latest": "no version and no constraint",
	} {
		m := ann.call(`"`+version+`"`, "open", `{}`, `{"perdure/version":"`+version+`"}`).result(true)
		if said := m.text() + string(m.Result.Meta["perdure/error"]); !strings.Contains(said, want) || !strings.Contains(said, "unknown_version") {
			t.Errorf("%q gives %s", version, said)
		}
	}
	m := ann.call(`"number"`, "open", `{}`, `{"perdure/version":1}`).message()
	if m.Error == nil || m.Error.Message != `invalid params: perdure/version is number, and must be a string such as "1.2.0", "^1" or "1"` {
		t.Errorf("a number gives %+v", m.Error)
	}
	if m := ann.call("1", "be_echo", `{}`, `{"perdure/version":"1"}`).result(true); !strings.Contains(m.text(), "not a composite tool") {
		t.Errorf("a tool of a backend gives %s", m.text())
	}
	published.SetFiles(define(t, "{name: of_a_file, description: d, steps: [{id: a, tool: be_echo}]}"))
	if m := ann.call("2", "of_a_file", `{}`, `{"perdure/version":"1"}`).result(true); !strings.Contains(m.text(), "of_a_file has no versions, since its file states none") {
		t.Errorf("a file without a version gives %s", m.text())
	}
	if w.runs.starts != 0 {
		t.Errorf("%d runs were started", w.runs.starts)
	}
}

// A gateway without a registry has the version that it offers, and no other.
func TestVersionsOfFiles(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.gateway.SetDefinitions(define(t, "{name: one, version: 1.2.0, description: d, steps: [{id: a, tool: be_echo}]}"))
	c := connect(t, w.url, "ann", "2025-11-25", `{}`)
	if m := c.call("1", "one", `{}`, `{"perdure/dry-run":true,"perdure/version":"^1"}`).result(false); !strings.Contains(m.text(), "one 1.2.0:") {
		t.Errorf("the plan is %s", m.text())
	}
	w.gateway.SetDefinitions(define(t, "{name: one, version: 1.2.0, description: d, steps: [{id: a, tool: be_echo}]}\n---\n{name: none, description: d, steps: [{id: a, tool: be_echo}]}"))
	if m := c.call("3", "none", `{}`, `{"perdure/version":"1"}`).result(true); !strings.Contains(m.text(), "none has no versions, since its file states none") {
		t.Errorf("a version of what has none gives %s", m.text())
	}
	if m := c.call("2", "one", `{}`, `{"perdure/version":"2"}`).result(true); !strings.Contains(m.text(), "one has no version 2; known versions: 1.2.0") {
		t.Errorf("another version gives %s", m.text())
	}
}

// A caller cannot call a version that it is not offered by asking for it where another
// version is offered.
func TestCallOfAVersionThatIsNotOffered(t *testing.T) {
	t.Parallel()
	w, _ := newPublishing(t)
	for version, expose := range map[string]string{"1.0.0": "{hidden: true, callers: [ship]}", "1.1.0": "{subjects: [user-ann]}", "1.2.0": "{}"} {
		text := "{name: open, version: " + version + ", description: d, expose: " + expose + ", steps: [{id: a, tool: be_echo}]}"
		if _, body := w.request("POST", "publish", "ann", map[string]any{"files": []any{map[string]any{"name": "f.yaml", "text": text}}}); strings.Contains(body, `"severity":"error"`) {
			t.Fatal(body)
		}
	}
	for caller, may := range map[string][]string{"ann": {"1.1.0", "1.2.0"}, "ben": {"1.2.0"}} {
		c := connect(t, w.url, caller, "2025-11-25", `{}`)
		for _, version := range []string{"1.0.0", "1.1.0", "1.2.0"} {
			m := c.call(`"`+version+`"`, "open", `{}`, `{"perdure/dry-run":true,"perdure/version":"`+version+`"}`).message()
			if refused := strings.Contains(m.text(), "open has no version "+version); refused == slices.Contains(may, version) {
				t.Errorf("%s calls %s: %s", caller, version, m.text())
			}
		}
		if _, all := w.request("GET", "versions", caller, nil); strings.Contains(all, `"1.1.0"`) != (caller == "ann") {
			t.Errorf("%s sees %s", caller, all)
		}
		for _, version := range []string{"1.0.0", "1.1.0"} {
			if code, source := w.request("GET", "definition?reference=open@"+version, caller, nil); (code == http.StatusOK) != (caller == "ann") {
				t.Errorf("%s reads %d %s", caller, code, source)
			}
		}
		_, history := w.request("GET", "history?name=open", caller, nil)
		for version, may := range map[string]bool{"1.0.0": caller == "ann", "1.1.0": caller == "ann", "1.2.0": true} {
			if strings.Contains(history, version) != may {
				t.Errorf("%s reads the history %s", caller, history)
			}
		}
	}
}
