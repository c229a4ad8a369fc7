package console

import (
	"net/http"
	"slices"
	"strings"
	"time"
)

// topicList is the page Topics.
type topicList struct {
	Search   string
	Internal bool // internal topics are shown
	Rows     []topicRow
	Hidden   int // number of internal topics that are not shown
	More     int // number of topics that were found and are not shown
	Most     int64
}

// topicsMax limits the rows of the page; a search narrows them.
const topicsMax = 500

func (c *Console) topics(r *http.Request) (view, error) {
	answers := c.opts.Fleet.Ask(r.Context(), nil)
	q := r.URL.Query()
	page := topicList{Search: q.Get("search"), Internal: q.Get("internal") != "",
		Rows: topicsOf(answers, time.Now())}
	page.Rows = slices.DeleteFunc(page.Rows, func(row topicRow) bool {
		if row.Internal && !page.Internal {
			page.Hidden++
			return true
		}
		return !strings.Contains(strings.ToLower(row.Name), strings.ToLower(page.Search))
	})
	if page.More = len(page.Rows) - topicsMax; page.More > 0 {
		page.Rows = page.Rows[:topicsMax]
	}
	for i := range page.Rows {
		page.Most = max(page.Most, page.Rows[i].Sections.Total())
	}
	return c.answered(view{Template: "topics", Title: "Topics", Body: page}, answers), nil
}
