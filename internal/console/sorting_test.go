package console

import (
	"cmp"
	"net/url"
	"slices"
	"testing"

	"heartwood.dev/heartwood/api/report"
)

// TestTablesAreSorted checks that the parameter sort determines the order. Equal rows must keep
// their order, and an unknown column must have no effect.
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

// TestHeadsOfSortedTables checks the links in column headers: a second click reverses the order,
// numbers are first sorted in descending order, and the other parameters of the page are kept.
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

// TestBrokersReplicasAndPassesAreSorted checks the order of three tables: unknown numbers come
// first in ascending order, partitions are compared by their leaders, and a running pass is sorted
// as longer than all others. By default, the history is sorted with the newest pass first.
func TestBrokersReplicasAndPassesAreSorted(t *testing.T) {
	by := func(name string) url.Values { return url.Values{"sort": {name}} }
	brokers := []brokerRow{{ID: 0, Garbage: 5}, {ID: 1, GarbageUnknown: true, Garbage: 9},
		{ID: 2, Garbage: 1, Volume: &report.Volume{UsedPercent: 70}}}
	for name, want := range map[string][]int32{"garbage": {1, 2, 0}, "-garbage": {0, 2, 1},
		"-pressure": {2, 0, 1}} {
		rows := slices.Clone(brokers)
		sorted("brokers", by(name), rows, brokerColumns)
		for i := range rows {
			if rows[i].ID != want[i] {
				t.Errorf("brokers by %s: broker %d at %d, want %d", name, rows[i].ID, i, want[i])
			}
		}
	}
	cell := func(broker int32, leader bool, size int64) replicaCell {
		return replicaCell{Broker: broker, Leader: leader, Report: &report.Partition{SizeBytes: size}}
	}
	replicas := []replicaRow{
		{PlacedPartition: report.PlacedPartition{Partition: 0},
			Replicas: []replicaCell{cell(0, false, 90), cell(1, true, 10)}},
		{PlacedPartition: report.PlacedPartition{Partition: 1},
			Replicas: []replicaCell{cell(0, true, 30)}},
		{PlacedPartition: report.PlacedPartition{Partition: 2}}, // nothing is known about its replicas
	}
	sorted("topic", by("-size"), replicas, replicaColumns)
	if replicas[0].Partition != 1 || replicas[1].Partition != 0 || replicas[2].Partition != 2 {
		t.Errorf("partitions by size of the leader: got %+v", replicas)
	}
	ended := 20.0
	passes := []passEntry{{PartitionPass: report.PartitionPass{Pass: report.Pass{Began: 30}}},
		{PartitionPass: report.PartitionPass{Pass: report.Pass{Began: 10, Ended: &ended}}}}
	page := mapPage{Passes: passes}
	page.sortPasses(url.Values{})
	if got := page.Sort.Head("began", "Began", ""); got.Aria != "descending" ||
		got.Link != "map?sort=began" {
		t.Errorf("head of the newest first: %+v", got)
	}
	page.sortPasses(by("took"))
	if page.Passes[0].Ended == nil {
		t.Errorf("passes by time: got %+v", page.Passes)
	}
}
