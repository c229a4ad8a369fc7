//go:build examples

package examples

import (
	"fmt"
	"maps"
	"testing"
)

// TestCapturedTopicsContainTheRows checks the topics against the rows that the statements of the
// example leave in PostgreSQL.
func TestCapturedTopicsContainTheRows(t *testing.T) {
	e := run(t, "cdc")
	e.expectSteps("after kill -9, orders: the state is the same",
		"the engine continued at its offset",
		"after the clean, customers: the state is the same",
		"the engine wrote 1 record for one new row")
	for topic, want := range map[string]map[string]string{
		"shop.public.customers": customers(), "shop.public.orders": orders(),
	} {
		if got := e.latest(topic); !maps.Equal(got, want) {
			t.Errorf("%s contains %d rows, want %d; %v", topic, len(got), len(want), got)
		}
		// One tombstone may remain at the end of each of the three partitions.
		if records := e.read(topic); len(records) > len(want)+3 {
			t.Errorf("%s contains %d records of %d rows", topic, len(records), len(want))
		}
	}
	if offsets := e.latest("shop-offsets"); len(offsets) != 1 {
		t.Errorf("the topic of the engine's offsets contains %v, want one offset", offsets)
	}
}

// customers returns the rows of the table customers, by the keys of their records.
func customers() map[string]string {
	rows := map[string]string{}
	for id := 1; id <= 200; id++ {
		if id == 3 || id == 10 || id%50 == 0 { // 10 became 1000, which was deleted
			continue
		}
		name, city := fmt.Sprintf("customer %d", id), "Ulm"
		if id%4 == 0 {
			city = "Bonn"
		}
		if id%2 == 1 {
			name += "!"
		}
		rows[key(id)] = fmt.Sprintf(`{"id":%d,"name":%q,"city":%q}`, id, name, city)
	}
	return rows
}

// orders returns the rows of the table orders, by the keys of their records.
func orders() map[string]string {
	row := func(id, customer int, state string) string {
		return fmt.Sprintf(`{"id":%d,"customer":%d,"state":%q}`, id, customer, state)
	}
	rows := map[string]string{key(1001): row(1001, 1, "new")}
	for id := 1; id <= 500; id++ {
		state := "new"
		switch {
		case id%5 == 0:
			continue
		case id%7 == 0:
			state = "returned"
		case id%3 == 0:
			state = "sent"
		case id%2 == 0:
			state = "paid"
		}
		rows[key(id)] = row(id, 1+id%200, state)
	}
	return rows
}

func key(id int) string { return fmt.Sprintf(`{"id":%d}`, id) }
