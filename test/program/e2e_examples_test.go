package program_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/perdure/perdure/internal/perduretest"
)

// pullRequest are the arguments of the examples about pull requests.
var pullRequest = map[string]any{"owner": "ada", "repo": "engine", "pullNumber": 7}

const (
	pullMeta    = `{"title":"Fix the engine","state":"open","user":{"login":"ada"},"html_url":"https://example.com/7"}`
	pullFiles   = `[{"filename":"engine.go","additions":3}]`
	pullReviews = `[{"user":{"login":"bob"},"state":"APPROVED"}]`
)

func pullRequestRead(_ context.Context, arguments map[string]any) (*mcp.CallToolResult, error) {
	return mcp.NewToolResultText(map[string]string{
		"get": pullMeta, "get_diff": "+++ engine.go", "get_files": pullFiles, "get_reviews": pullReviews, "get_review_comments": "[]",
	}[fmt.Sprint(arguments["method"])]), nil
}

// exampleTools are the tools that the worked examples of ToolHive's guides to
// composite tools use; some answer with structured content, some with text.
var exampleTools = map[string]fakeTool{
	"github_pull_request_read":         pullRequestRead,
	"github_pull_request_review_write": textAnswer(`{"id":41,"state":"PENDING"}`),
	"github_create_issue":              structuredAnswer(`{"number":12345678,"url":"https://example.com/issues/12345678"}`),
	"github_get_pull_request":          structuredAnswer(`{"head_sha":"0123456"}`),
	"logging_search_logs":              structuredAnswer(`{"results":"disk full"}`),
	"monitoring_get_metrics":           structuredAnswer(`{"error_rate":0.25}`),
	"pagerduty_list_alerts":            structuredAnswer(`{"alerts":[]}`),
	"docs_create_document":             structuredAnswer(`{"document":"d1"}`),
	"scm_get_pull_request":             structuredAnswer(`{"head_sha":"89abcde"}`),
	"scm_list_repos":                   structuredAnswer(`{"repositories":[{"name":"a"},{"name":"b"},{"name":"c"}]}`),
	"scm_list_security_advisories":     advisories,
	"deploy_trigger_deployment":        structuredAnswer(`{"deployment":"started"}`),
	"osv_query_vulnerability":          structuredAnswer(`{"vulns":[{"id":"OSV-1"},{"id":"OSV-2"}]}`),
	"gitleaks_scan_repo":               structuredAnswer(`{"secrets":0}`),
	"api_get_data":                     structuredAnswer(`{"status":"ok","data":"all of it"}`),
	"processing_combine_data":          structuredAnswer(`{"combined":true}`),
	"oci-registry_get_image_info":      structuredAnswer(`{"digest":"sha256:1f","architecture":"arm64","layers":7}`),
	"oci-registry_list_referrers":      structuredAnswer(`{"referrers":[{"type":"sbom"}]}`),
	"oci-registry_list_tags":           structuredAnswer(`{"tags":["v1","v2"]}`),
	"arxiv_search_papers":              textAnswer(`{"papers":[{"id":"2401.00001"},{"id":"2401.00002"}]}`),
	"arxiv_download_paper":             textAnswer(`downloaded`),
	"arxiv_read_paper":                 textAnswer(`Attention is all you need.`),
}

func advisories(_ context.Context, arguments map[string]any) (*mcp.CallToolResult, error) {
	if arguments["repo"] == "b" {
		return mcp.NewToolResultError("advisories are off"), nil
	}
	return structured(map[string]any{"advisories": []string{fmt.Sprint(arguments["repo"], "-1")}}), nil
}

// An exampleCase is a call of an example.
type exampleCase struct {
	name      string // tool, and after a slash what is different
	arguments map[string]any
	answer    client.ElicitationHandler
	fails     string // tool that fails
	want      string // the result
	wantError string // what the error says
	calls     []string
	fewer     bool // a failure may come before all calls are made
}

var exampleCases = []exampleCase{
	{
		name: "gather_pr_context", arguments: pullRequest,
		want: fmt.Sprintf(`{"text":%q}`, pullFiles), calls: pullReads("get", "get_diff", "get_files"),
	},
	{
		name: "prepare_pr_review/accepted", arguments: pullRequest, answer: says("accept", map[string]any{}),
		want:  pullResult(`{"id":41,"state":"PENDING"}`),
		calls: append(pullReads("get", "get_diff", "get_files", "get_reviews", "get_review_comments"), `github_pull_request_review_write {"method":"create","owner":"ada","pullNumber":7,"repo":"engine"}`),
	},
	{
		name: "prepare_pr_review/declined", arguments: pullRequest, answer: says("decline", nil),
		want: pullResult(`{"status":"skipped"}`), calls: pullReads("get", "get_diff", "get_files", "get_reviews", "get_review_comments"),
	},
	{
		name: "prepare_pr_review/dismissed", arguments: pullRequest, answer: says("cancel", nil),
		want: pullResult(`{"status":"skipped"}`), calls: pullReads("get", "get_diff", "get_files", "get_reviews", "get_review_comments"),
	},
	{
		name: "prepare_pr_review/without a number", arguments: map[string]any{"owner": "ada", "repo": "engine"},
		wantError: "pullNumber",
	},
	{
		name: "prepare_pr_review/a read fails", arguments: pullRequest, fails: "github_pull_request_read", fewer: true,
		wantError: "planned failure", calls: pullReads("get", "get_diff", "get_files", "get_reviews", "get_review_comments"),
	},
	{
		name: "investigate_incident", arguments: map[string]any{"incident_id": "I-9"},
		want: `{"document":"d1"}`,
		calls: []string{
			`docs_create_document {"content":"Logs: disk full","title":"Incident I-9 Summary"}`,
			`logging_search_logs {"query":"incident_id=I-9","timerange":"1h"}`,
			`monitoring_get_metrics {"filter":"error_rate","timerange":"1h"}`,
			`pagerduty_list_alerts {"incident":"I-9"}`,
		},
	},
	{
		name: "deploy_with_approval/accepted", arguments: map[string]any{"pr_number": "7"}, answer: says("accept", map[string]any{}),
		want:  `{"deployment":"started"}`,
		calls: []string{`deploy_trigger_deployment {"environment":"production","ref":"89abcde"}`, `scm_get_pull_request {"pr":"7"}`},
	},
	{
		name: "deploy_with_approval/declined", arguments: map[string]any{"pr_number": "7", "environment": "test"}, answer: says("decline", nil),
		want: `{"action":"decline"}`, calls: []string{`scm_get_pull_request {"pr":"7"}`},
	},
	{
		name: "deploy_with_answer/approved", arguments: map[string]any{"pr_number": "7"}, answer: says("accept", map[string]any{"approved": true}),
		want:  `{"deployment":"started"}`,
		calls: []string{`deploy_trigger_deployment {"environment":"production","ref":"0123456"}`, `github_get_pull_request {"pr":"7"}`},
	},
	{
		name: "deploy_with_answer/not approved", arguments: map[string]any{"pr_number": "7"}, answer: says("accept", map[string]any{"approved": false}),
		want: `{"action":"accept","content":{"approved":false}}`, calls: []string{`github_get_pull_request {"pr":"7"}`},
	},
	{
		name: "deploy_with_answer/declined", arguments: map[string]any{"pr_number": "7"}, answer: says("decline", nil),
		wantError: "approval", calls: []string{`github_get_pull_request {"pr":"7"}`},
	},
	{
		name: "security_scan_report", arguments: map[string]any{"package_name": "left-pad", "ecosystem": "npm", "repo": "ada/engine"},
		want: `{"number":12345678,"url":"https://example.com/issues/12345678"}`, calls: scanCalls(),
	},
	{
		name: "security_scan_report/no issue", arguments: map[string]any{"package_name": "left-pad", "ecosystem": "npm", "repo": "ada/engine"}, fails: "github_create_issue",
		want: `{"secrets":0}`, calls: scanCalls(),
	},
	{
		name: "scan_repositories", arguments: map[string]any{"org": "ada"},
		want: `{"count":3,"completed":2,"failed":1,"iterations":[
			{"index":0,"item":{"name":"a"},"status":"completed","output":{"advisories":["a-1"]}},
			{"index":1,"item":{"name":"b"},"status":"failed","error":"step check_advisories[1]: scm_list_security_advisories failed: advisories are off"},
			{"index":2,"item":{"name":"c"},"status":"completed","output":{"advisories":["c-1"]}}]}`,
		calls: []string{`scm_list_repos {"org":"ada"}`, `scm_list_security_advisories {"repo":"a"}`, `scm_list_security_advisories {"repo":"b"}`, `scm_list_security_advisories {"repo":"c"}`},
	},
	{
		name: "optional_security_check/with", arguments: map[string]any{"package_name": "left-pad", "ecosystem": "npm", "run_vuln_scan": true},
		want:  `{"document":"d1"}`,
		calls: []string{`docs_create_document {"body":"Found 2 vulnerabilities","title":"Security Report"}`, `osv_query_vulnerability {"ecosystem":"npm","package_name":"left-pad"}`},
	},
	{
		name: "optional_security_check/without", arguments: map[string]any{"package_name": "left-pad", "ecosystem": "npm"},
		want: `{"document":"d1"}`, calls: []string{`docs_create_document {"body":"Found 0 vulnerabilities","title":"Security Report"}`},
	},
	{
		name: "multi_source_data",
		want: `{"combined":true}`, calls: []string{`api_get_data {"source":"primary"}`, `processing_combine_data {"primary":"all of it"}`},
	},
	{
		name: "multi_source_data/down", fails: "api_get_data",
		want: `{"combined":true}`, calls: []string{`api_get_data {"source":"primary"}`, `processing_combine_data {"primary":""}`},
	},
	{
		name: "multi_source_null/down", fails: "api_get_data", // null is no argument
		want: `{"combined":true}`, calls: []string{`api_get_data {"source":"primary"}`, `processing_combine_data {}`},
	},
	{
		name: "create_github_issue", arguments: map[string]any{"title": "It's broken: #1", "body": "a\nb"},
		want:  `{"issue_number":12345678,"issue_url":"https://example.com/issues/12345678"}`,
		calls: []string{`github_create_issue {"body":"a\nb","title":"It's broken: #1"}`},
	},
	{
		name: "audit_image_supply_chain", arguments: map[string]any{"image_ref": "r.example/a:v2", "repository": "a"},
		want: `{"image_ref":"r.example/a:v2","digest":"sha256:1f","architecture":"arm64","layers":7,"referrers":[{"type":"sbom"}],"recent_tags":["v1","v2"]}`,
		calls: []string{
			`oci-registry_get_image_info {"image_ref":"r.example/a:v2"}`,
			`oci-registry_list_referrers {"image_ref":"r.example/a:v2"}`,
			`oci-registry_list_tags {"limit":10,"repository":"a"}`,
		},
	},
	{
		name: "research_topic", arguments: map[string]any{"query": "attention"},
		want:  `{"text":"Attention is all you need."}`,
		calls: []string{`arxiv_download_paper {"paper_id":"2401.00001"}`, `arxiv_read_paper {"paper_id":"2401.00001"}`, `arxiv_search_papers {"max_results":1,"query":"attention"}`},
	},
}

func pullReads(methods ...string) []string {
	var calls []string
	for _, method := range methods {
		calls = append(calls, fmt.Sprintf(`github_pull_request_read {"method":%q,"owner":"ada","pullNumber":7,"repo":"engine"}`, method))
	}
	return calls
}

func pullResult(review string) string {
	return fmt.Sprintf(`{"summary":{"title":"Fix the engine","state":"open","author":"ada","url":"https://example.com/7"},
		"changedFiles":%q,"existingReviews":%q,"reviewCreationResult":%q}`, pullFiles, pullReviews, review)
}

func scanCalls() []string {
	return []string{
		`github_create_issue {"body":"Vulnerability scan completed for left-pad","repo":"ada/engine","title":"Security Scan Results"}`,
		`gitleaks_scan_repo {"repository":"ada/engine"}`,
		`osv_query_vulnerability {"ecosystem":"npm","package_name":"left-pad"}`,
	}
}

// TestExamples runs the worked examples of ToolHive's guides to composite tools
// as they stand there, by clients of both eras.
func TestExamples(t *testing.T) {
	t.Parallel()
	var failing atomic.Value
	failing.Store("")
	tools := map[string]fakeTool{}
	for name, answer := range exampleTools {
		tools[name] = func(ctx context.Context, arguments map[string]any) (*mcp.CallToolResult, error) {
			if failing.Load() == name {
				return mcp.NewToolResultError("planned failure"), nil
			}
			return answer(ctx, arguments)
		}
	}
	f := serveFakes(t, tools)
	d := serveExamples(t, f)
	for _, version := range []string{legacy, modern} {
		for _, e := range exampleCases {
			t.Run(version+"/"+e.name, func(t *testing.T) {
				failing.Store(e.fails)
				before := len(f.seen())
				tool, _, _ := strings.Cut(e.name, "/")
				result, err := toolCall{name: tool, arguments: e.arguments}.by(t.Context(), d.dial(t, version, e.answer))
				if err != nil {
					t.Fatal(err)
				}
				e.check(t, result)
				var calls []string
				for _, call := range f.seen()[before:] {
					calls = append(calls, call.Tool+" "+call.Arguments)
				}
				slices.Sort(calls)
				want := slices.Sorted(slices.Values(e.calls))
				if e.fewer {
					want = slices.DeleteFunc(want, func(call string) bool { return !slices.Contains(calls, call) })
				}
				if diff := cmp.Diff(want, calls); diff != "" {
					t.Errorf("calls (-want +got):\n%s", diff)
				}
			})
		}
	}
	t.Run("all", func(t *testing.T) { everyExampleIsCalled(t) })
}

// serveExamples starts dev with the examples: one by its reference, one
// inline, as the guides have it, the others as files.
func serveExamples(t *testing.T, f *fakeServers) *devProcess {
	t.Helper()
	examples := perduretest.Must(filepath.Abs("testdata/e2e/examples"))(t)
	dir := t.TempDir()
	putFile(t, filepath.Join(dir, "perdure.yaml"), `
name: examples
groupRef: my-tools
incomingAuth: {type: anonymous}
`+f.configuration(`[]`)+`
aggregation:
  conflictResolution: prefix
  conflictResolutionConfig: {prefixFormat: '{workload}_'}
compositeTools:
  - name: inline
    description: An entry of the configuration itself.
    steps: [{id: hello, tool: api_get_data, arguments: {source: inline}}]
`)
	return startDev(t, dir, "--config", "perdure.yaml", "--definitions", examples)
}

func (e exampleCase) check(t *testing.T, result *mcp.CallToolResult) {
	t.Helper()
	if e.wantError != "" {
		if !result.IsError || !strings.Contains(asJSON(t, result.Content), e.wantError) {
			t.Errorf("the result is %s, want an error that says %q", asJSON(t, result), e.wantError)
		}
		return
	}
	if result.IsError {
		t.Fatalf("the call failed: %s", asJSON(t, result.Content))
	}
	sameJSON(t, "the result", sent(t, result), e.want)
}

func everyExampleIsCalled(t *testing.T) {
	files := perduretest.Must(os.ReadDir("testdata/e2e/examples"))(t)
	for _, file := range files {
		tool := strings.TrimSuffix(file.Name(), ".yaml")
		if !slices.ContainsFunc(exampleCases, func(e exampleCase) bool { return strings.HasPrefix(e.name+"/", tool+"/") }) {
			t.Errorf("no case calls %s", tool)
		}
	}
}
