package program_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/perdure/perdure/internal/perduretest"
)

// newBrowser starts a browser in which JavaScript is off.
func newBrowser(t *testing.T) context.Context {
	t.Helper()
	ctx := newScriptedBrowser(t)
	if _, err := chromedp.Call(ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}); err != nil {
		t.Fatal(err)
	}
	return ctx
}

// newScriptedBrowser starts a browser; without Chromium, the test is skipped, or
// fails where PERDURE_TEST_REQUIRE says chromium.
func newScriptedBrowser(t *testing.T) context.Context {
	t.Helper()
	var chromium string
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			chromium = path
			break
		}
	}
	if chromium == "" {
		const why = "needs Chromium"
		if slices.Contains(strings.Split(os.Getenv(requireVar), ","), "chromium") {
			t.Fatal(why)
		}
		t.Skip(why)
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(chromium), chromedp.NoSandbox,
		chromedp.WindowSize(900, 1300), chromedp.WSURLReadTimeout(patience), chromedp.Flag("disable-dev-shm-usage", true))
	ctx, stop := context.WithTimeout(t.Context(), 2*patience)
	t.Cleanup(stop)
	ctx, stop = chromedp.NewExecAllocator(ctx, options...)
	t.Cleanup(stop)
	ctx, stop = chromedp.NewContext(ctx)
	t.Cleanup(stop)
	return ctx
}

// TestApprovalInABrowser: a client that cannot ask its user gets a link; its
// user follows it, answers in a browser without JavaScript, and the call comes
// to its result.
func TestApprovalInABrowser(t *testing.T) {
	t.Parallel()
	browser := newBrowser(t)
	repository := newRepository(t)
	d := startSealedDev(t, repository)
	c := d.dial(t, legacy, nil)
	result := perduretest.Must(toolCall{name: "prepare_review"}.by(t.Context(), c))(t)
	told := asJSON(t, result.Content)
	link := regexp.MustCompile(`http://\S+/approvals/(prepare_review/\w+)`).FindStringSubmatch(told)
	if link == nil {
		t.Fatalf("there is no link in %s", told)
	}
	show := func(name string, steps ...chromedp.Action[chromedp.Void]) string {
		t.Helper()
		if err := chromedp.Do(browser, steps...); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		page, err := chromedp.Run(browser, chromedp.Text(chromedp.CSS("main")))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		picture, err := chromedp.Run(browser, chromedp.FullScreenshot(100))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := os.WriteFile(filepath.Join(t.ArtifactDir(), name+".png"), picture, 0o644); err != nil {
			t.Error(err)
		}
		return page
	}
	contains := func(page string, parts ...string) {
		t.Helper()
		for _, part := range parts {
			if !strings.Contains(page, part) {
				t.Errorf("the page lacks %q:\n%s", part, page)
			}
		}
	}
	contains(show("signed-out", chromedp.Navigate(link[0])), "Sign in", "perdure approvals open "+link[1])
	contains(show("list-of-one", chromedp.Navigate(d.signInLink(t))), "Write a review?")
	contains(show("question", chromedp.Navigate(link[0])), "Add docs/guide.md", "Write a review?", "Verdict", "approve", "What to say (optional)", `"head": "HEAD"`)

	// What the browser does not check is told, and what was entered stays.
	contains(show("mistake",
		chromedp.RemoveAttribute(chromedp.CSS(`input[value="0"]`), "required"),
		chromedp.SetAttributeValue(chromedp.CSS(`input[value="0"]`), "value", "17"),
		chromedp.Click(chromedp.CSS(`input[value="17"]`)),
		chromedp.SendKeys(chromedp.CSS("textarea"), "Looks <b>good</b>."),
		chromedp.Click(chromedp.CSS(`button[value="accept"]`)),
		chromedp.WaitVisible(chromedp.CSS(`[role="alert"]`))), "The answer was not taken: verdict is required")
	contains(show("answered",
		chromedp.Click(chromedp.CSS(`input[value="0"]`)),
		chromedp.Click(chromedp.CSS(`button[value="accept"]`)),
		chromedp.WaitNotPresent(chromedp.CSS(`button[value="accept"]`))), "accepted by you")

	got := toolCall{name: "perdure_run_await", arguments: map[string]any{"runId": link[1]}}.must(t, c)
	contains(got, `"decision":"accept"`, `"reviewPath":".perdure/reviews/`)
	files, _ := filepath.Glob(filepath.Join(repository, ".perdure/reviews/*.md"))
	if len(files) != 1 {
		t.Fatalf("reviews: %v", files)
	}
	review := perduretest.Read(t, files[0])
	contains(string(review), "approve", "Looks <b>good</b>.")
	contains(show("result", chromedp.Navigate(link[0])), "completed", "Result", `"decision": "accept"`)
	list, _, _ := strings.Cut(link[0], "/prepare_review")
	until(t, "the list to be empty", func() bool { // the index follows a moment later
		return strings.Contains(show("list", chromedp.Navigate(list)), "Nothing waits for your answer.")
	})
}
