package console

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"time"
)

// topicList is the page Topics.
type topicList struct {
	Search   string
	Internal bool // true if internal topics are shown
	Rows     []topicRow
	Hidden   int // number of internal topics that are not shown
	More     int // number of matching topics that are not shown
	Most     int64
	Sort     sorting
	SortBy   string // value of the parameter sort
}

// topicColumns are the columns by which the page can be sorted.
var topicColumns = []column[topicRow]{
	{"name", func(a, b *topicRow) int { return cmp.Compare(a.Name, b.Name) }},
	{"partitions", func(a, b *topicRow) int { return cmp.Compare(a.Partitions, b.Partitions) }},
	{"size", func(a, b *topicRow) int { return cmp.Compare(a.Bytes, b.Bytes) }},
	{"offsets", func(a, b *topicRow) int { return cmp.Compare(a.Offsets, b.Offsets) }},
	{"records", func(a, b *topicRow) int { return comparePointers(a.RecordCount, b.RecordCount) }},
	{"keys", func(a, b *topicRow) int { return comparePointers(a.KeyCount, b.KeyCount) }},
	{"dirty", func(a, b *topicRow) int { return cmp.Compare(a.DirtyRatio, b.DirtyRatio) }},
	{"garbage", func(a, b *topicRow) int { return cmp.Compare(a.Garbage, b.Garbage) }},
	{"cleaner", func(a, b *topicRow) int { return cmp.Compare(a.Message, b.Message) }},
}

// comparePointers compares two numbers. An unknown number (nil) is below all others.
func comparePointers(a, b *int64) int {
	switch {
	case a == nil && b == nil:
		return 0
	case a == nil:
		return -1
	case b == nil:
		return 1
	}
	return cmp.Compare(*a, *b)
}

// topicsMax is the maximum number of rows on the page. Users can search to narrow down the list.
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
	page.SortBy = q.Get("sort")
	page.Sort = sorted("topics", q, page.Rows, topicColumns)
	if page.More = len(page.Rows) - topicsMax; page.More > 0 {
		page.Rows = page.Rows[:topicsMax]
	}
	for i := range page.Rows {
		page.Most = max(page.Most, page.Rows[i].Sections.Total())
	}
	return c.answered(view{Template: "topics", Title: "Topics", Body: page}, answers), nil
}
