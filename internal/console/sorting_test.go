package console

import (
	"cmp"
	"net/url"
	"slices"
	"testing"
)

// TestTablesAreSorted: parameter sort decides, rows that are equal keep their order, and an unknown
// column changes nothing.
func TestTablesAreSorted(t *testing.T) {
	type row struct {
		name string
		size int
	}
	columns := []column[row]{
		{"name", func(a, b *row) int { return cmp.Compare(a.name, b.name) }},
		{"size", func(a, b *row) int { return cmp.Compare(a.size, b.size) }}}
	for by, want := range map[string]string{"": "abc", "name": "abc", "-name": "cba", "size": "acb",
		"-size": "bac", "color": "abc", "-": "abc", "--size": "abc"} {
		rows := []row{{"a", 1}, {"b", 2}, {"c", 1}}
		sorted("page", url.Values{"sort": {by}}, rows, columns)
		got := ""
		for _, r := range rows {
			got += r.name
		}
		if got != want {
			t.Errorf("sort=%s: got %s, want %s", by, got, want)
		}
	}
}

// TestHeadsOfSortedTables: a second click turns the order, numbers begin with the largest, and the
// other parameters of the page stay.
func TestHeadsOfSortedTables(t *testing.T) {
	columns := []column[int]{{"name", nil}, {"size", func(a, b *int) int { return cmp.Compare(*a, *b) }}}
	for _, test := range []struct{ by, name, class, link, aria string }{
		{"", "name", "", "page?search=x&sort=-name", "ascending"},
		{"", "size", "num", "page?search=x&sort=-size", ""},
		{"-size", "size", "num", "page?search=x&sort=size", "descending"},
		{"size", "size", "num", "page?search=x&sort=-size", "ascending"},
		{"size", "name", "", "page?search=x&sort=name", ""},
	} {
		query := url.Values{"sort": {test.by}, "search": {"x"}}
		head := sorted("page", query, []int{2, 1}, columns).Head(test.name, "Label", test.class)
		if head.Link != test.link || head.Aria != test.aria ||
			!slices.Equal(query["sort"], []string{test.by}) {
			t.Errorf("%+v: got %+v", test, head)
		}
	}
}
