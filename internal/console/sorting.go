package console

import (
	"net/url"
	"slices"
	"strings"
)

// column is a column by which a table can be sorted. It has a name for URLs, and a function that
// compares two rows.
type column[T any] struct {
	name    string
	compare func(a, b *T) int
}

// sorting is the order of a table: the column, and whether the order is descending. It creates the
// links in the column headers.
type sorting struct {
	path       string
	query      url.Values
	by         string
	descending bool
}

// sorted sorts rows by the query's parameter sort. The parameter is the name of a column, with a
// leading "-" for descending order. If there is no such column, the rows keep their order, i.e. the
// order by the first column.
func sorted[T any](path string, query url.Values, rows []T, columns []column[T]) sorting {
	by, descending := strings.CutPrefix(query.Get("sort"), "-")
	index := slices.IndexFunc(columns, func(c column[T]) bool { return c.name == by })
	if index < 0 {
		return sorting{path: path, query: query, by: columns[0].name}
	}
	slices.SortStableFunc(rows, func(a, b T) int {
		if descending {
			return columns[index].compare(&b, &a)
		}
		return columns[index].compare(&a, &b)
	})
	return sorting{path, query, by, descending}
}

// sortHead is the header of a column.
type sortHead struct {
	Label, Class string
	Link         string // relative URL of the table sorted by the column
	Aria         string // value of attribute aria-sort; "" if the table is sorted by another column
}

// Head returns the header of a column. The first click on a numeric column sorts it in descending
// order.
func (s sorting) Head(name, label, class string) sortHead {
	head := sortHead{Label: label, Class: class}
	next := name
	switch {
	case s.by == name && s.descending:
		head.Aria = "descending"
	case s.by == name:
		head.Aria, next = "ascending", "-"+name
	case class == "num":
		next = "-" + name
	}
	query := url.Values{}
	for key, values := range s.query {
		query[key] = values
	}
	query.Set("sort", next)
	head.Link = s.path + "?" + query.Encode()
	return head
}
