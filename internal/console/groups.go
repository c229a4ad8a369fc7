package console

import (
	"cmp"
	"net/http"
	"time"

	"heartwood.dev/heartwood/internal/console/kafka"
)

// groupList is the page Groups.
type groupList struct {
	Groups []groupRow
	More   bool // true if the page shows only some of the groups
	Sort   sorting
}

// groupColumns are the columns by which a table of groups can be sorted.
var groupColumns = []column[groupRow]{
	{"name", func(a, b *groupRow) int { return cmp.Compare(a.Name, b.Name) }},
	{"state", func(a, b *groupRow) int { return cmp.Compare(a.State, b.State) }},
	{"type", func(a, b *groupRow) int { return cmp.Compare(a.Type, b.Type) }},
	{"members", func(a, b *groupRow) int { return cmp.Compare(len(a.Members), len(b.Members)) }},
	{"lag", func(a, b *groupRow) int { return cmp.Compare(a.Lag(), b.Lag()) }},
	{"wait", func(a, b *groupRow) int { return cmp.Compare(a.longest, b.longest) }},
}

// groupRow is a group, with its lag in time as text.
type groupRow struct {
	kafka.Group
	Wait    string
	Rows    []offsetRow
	longest time.Duration // longest known lag in time
}

// offsetRow is a committed offset, with its lag in time as text.
type offsetRow struct {
	kafka.GroupOffset
	Wait string
}

// groupRows returns the rows for groups.
func groupRows(groups []kafka.Group, now time.Time) []groupRow {
	rows := make([]groupRow, 0, len(groups))
	for i := range groups {
		row := groupRow{Group: groups[i], Wait: none}
		longest, complete := row.Group.Wait(now)
		row.longest = longest
		switch {
		case len(row.Offsets) == 0:
		case complete:
			row.Wait = waitText(longest)
		case longest > 0:
			row.Wait = "at least " + waitText(longest)
		default:
			row.Wait = "unknown"
		}
		for _, o := range row.Offsets {
			line := offsetRow{o, none}
			wait, known := o.Wait(now)
			if _, lag := o.Lag(); lag {
				if line.Wait = "unknown"; known {
					line.Wait = waitText(wait)
				}
			}
			row.Rows = append(row.Rows, line)
		}
		rows = append(rows, row)
	}
	return rows
}

// waitText formats a lag in time.
func waitText(wait time.Duration) string {
	if wait == 0 {
		return "0 s"
	}
	return formatDuration(wait)
}

func (c *Console) groups(r *http.Request) (view, error) {
	client, err := c.kafka()
	if err != nil {
		return view{}, err
	}
	groups, more, err := client.Groups(r.Context())
	if err != nil {
		return view{}, err
	}
	client.AddWaits(r.Context(), groups)
	rows := groupRows(groups, time.Now())
	return view{Template: "groups", Title: "Groups", Body: groupList{rows, more,
		sorted("groups", r.URL.Query(), rows, groupColumns)}}, nil
}

func (c *Console) group(r *http.Request) (view, error) {
	client, err := c.kafka()
	if err != nil {
		return view{}, err
	}
	name := r.URL.Query().Get("name")
	found, _, err := client.Groups(r.Context(), name)
	if err != nil {
		return view{}, err
	}
	if len(found) == 0 {
		return view{}, &fault{status: http.StatusNotFound,
			text: "There is no group with the name " + name + "."}
	}
	client.AddWaits(r.Context(), found[:1])
	return view{Template: "group", Title: name, Page: "groups", Refusal: c.refusalOf(r, WriteGroups),
		Body: &groupRows(found[:1], time.Now())[0]}, nil
}
