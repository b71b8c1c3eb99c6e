package approvals

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/perdure/perdure/gateway/auth"
	"github.com/perdure/perdure/internal/runs"
)

// Sizes of the list.
const (
	listed  = 25  // runs on a page, or a few more
	perLook = 100 // runs that are looked at at a time
	looks   = 10  // how often, for one page
)

// A row of the list is a run, with the first of its questions. Who has one run
// ask hundreds takes no more of the list than others.
type row struct {
	Path string
	question
	More int // further questions of the run
}

// A place in the list: first come the visitor's own runs, then those of others.
type place struct {
	others bool
	from   string // of runs.ListPage
}

const (
	ownMark    = "own."
	othersMark = "others."
)

func (p place) String() string {
	if p.others {
		return othersMark + p.from
	}
	return ownMark + p.from
}

func parsePlace(s string) place {
	if from, ok := strings.CutPrefix(s, othersMark); ok {
		return place{true, from}
	}
	return place{false, strings.TrimPrefix(s, ownMark)}
}

// list shows the runs with open questions that the visitor may answer.
func (in *inbox) list(w http.ResponseWriter, r *http.Request, who auth.Identity) {
	at := parsePlace(r.URL.Query().Get("from"))
	rows, next, more, err := in.rows(r, who, at)
	if err != nil && at != (place{}) { // the index has changed, or the place was made up
		in.Logger.Info("cannot list open elicitations from a cursor", "error", err)
		http.Redirect(w, r, Prefix, http.StatusSeeOther)
		return
	}
	if err != nil {
		in.fail(w, who, "*", err)
		return
	}
	data := listData{page: in.page(who, "Approvals"), Rows: rows, First: at == place{}}
	if more {
		data.Next = Prefix + "?from=" + url.QueryEscape(next.String())
	}
	in.pages.show(w, http.StatusOK, "list", data)
}

// rows collects runs from a place on, until there are enough for a page.
func (in *inbox) rows(r *http.Request, who auth.Identity, at place) (rows []row, next place, more bool, err error) {
	for range looks {
		filter := runs.Filter{Waiting: true, Limit: perLook}
		if !at.others {
			filter.Caller = who.Caller()
		}
		page, from, err := in.Runs.ListPage(r.Context(), filter, at.from)
		if err != nil {
			return nil, place{}, false, err
		}
		for _, run := range page {
			if own := run.Caller == who.Caller(); own != at.others {
				rows = in.withRow(rows, who, &run)
			}
		}
		switch {
		case from != "":
			at.from = from
		case !at.others && in.Policy.SeesOthers(who):
			at = place{others: true}
		default:
			return rows, place{}, false, nil
		}
		if len(rows) >= listed {
			break
		}
	}
	return rows, at, true, nil
}

// withRow adds the row of a run, if it asks what the visitor may answer.
func (in *inbox) withRow(rows []row, who auth.Identity, run *runs.Run) []row {
	if !in.Policy.May(who, auth.See, object(run)) {
		return rows
	}
	var asks []runs.Elicitation
	for _, e := range run.Open() {
		if in.mayAnswer(who, run, e) {
			asks = append(asks, e)
		}
	}
	if len(asks) == 0 {
		return rows
	}
	return append(rows, row{Path: Path(run.ID), question: in.question(who, run, asks[0]), More: len(asks) - 1})
}
