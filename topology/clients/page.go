package clients

import (
	"context"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
)

// hidden finds the fields of a form that say which question it is about.
var hidden = regexp.MustCompile(`<input type="hidden" name="(question|token)" value="([^"]*)">`)

// ErrNotAsked says that a page has no form for a question.
var ErrNotAsked = errors.New("the page asks nothing of the kind")

// AnswerOnPage answers a question as a browser does on the page of a run: it
// gets the form and sends it. Fields are those of the question's schema; an
// empty question is the only one that the page asks.
func AnswerOnPage(ctx context.Context, page, question, action string, fields map[string]string) error {
	text, err := browse(ctx, http.MethodGet, page, "")
	if err != nil {
		return err
	}
	form := url.Values{"action": {action}}
	for name, value := range fields {
		form.Set("field."+name, value)
	}
	about := ""
	for _, field := range hidden.FindAllStringSubmatch(text, -1) {
		name, value := field[1], html.UnescapeString(field[2])
		if name == "question" {
			about = value
		}
		if question == "" || about == question {
			form.Set(name, value)
		}
	}
	if !form.Has("question") {
		return ErrNotAsked
	}
	_, err = browse(ctx, http.MethodPost, page, form.Encode())
	return err
}

func browse(ctx context.Context, method, page, form string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, method, page, strings.NewReader(form))
	if err != nil {
		return "", err
	}
	if form != "" {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode >= http.StatusBadRequest {
		err = fmt.Errorf("%s of %s: %s", method, page, response.Status)
	}
	return string(text), err
}
