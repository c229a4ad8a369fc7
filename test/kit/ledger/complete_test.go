package ledger

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

func TestCheckComplete(t *testing.T) {
	a1, b1, a2, b2, c1 := record(0, 0, "a", "1"), record(0, 1, "b", "1"), record(0, 2, "a", "2"),
		record(0, 3, "b", ""), record(1, 0, "c", "1")
	tests := map[string]struct {
		read []*kgo.Record
		want string // a part of the expected fault; "" if none is expected
	}{
		"complete": {[]*kgo.Record{a1, b1, a2, b2, c1}, ""},
		"unacknowledged record is found": {[]*kgo.Record{a1, b1, a2, b2, c1,
			record(1, 1, "c", "2")},
			""},
		"superseded value lost": {[]*kgo.Record{b1, a2, b2, c1},
			"offset 0 of partition 0 was acknowledged and is lost"},
		"tombstone lost": {[]*kgo.Record{a1, b1, a2, c1}, `deleted key "b" has returned`},
		"another record at the offset": {[]*kgo.Record{record(0, 0, "c", "1"), b1, a2, b2, c1},
			"offset 0 of partition 0 holds another record"},
		"duplicate": {[]*kgo.Record{a1, b1, a2, b2, c1, record(1, 1, "c", "1")},
			`key "c": the record at offset 1 of partition 1 is a duplicate`},
		"unacknowledged write before its key's earlier": {
			[]*kgo.Record{a1, b1, a2, b2, record(2, 0, "c", "2"), c1},
			`key "c": the record at offset 0 of partition 1 is a duplicate, or follows a record`,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			err := newAccount().CheckComplete(test.read)
			switch {
			case test.want == "" && err != nil:
				t.Errorf("unexpected fault: %v", err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
				t.Errorf("got %v, want a fault with %q", err, test.want)
			}
		})
	}
}
