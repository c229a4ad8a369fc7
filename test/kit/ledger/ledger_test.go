package ledger

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

func record(partition int32, offset int64, key, value string) *kgo.Record {
	r := &kgo.Record{Partition: partition, Offset: offset, Key: []byte(key)}
	if value != "" {
		r.Value = []byte(value)
	}
	return r
}

// newAccount returns a ledger with three keys. Key a has two values, key b is deleted, and the last
// value of key c was sent but not acknowledged.
func newAccount() *Ledger {
	l := New()
	for _, r := range []*kgo.Record{
		record(0, 0, "a", "1"), record(0, 1, "b", "1"), record(0, 3, "b", ""),
		record(0, 2, "a", "2"), record(1, 0, "c", "1"),
	} {
		l.Sent(r)
		l.Acknowledged(r)
	}
	l.Sent(record(1, 0, "c", "2"))
	return l
}

func TestCheck(t *testing.T) {
	a, b, c := record(0, 2, "a", "2"), record(0, 3, "b", ""), record(1, 0, "c", "1")
	tests := map[string]struct {
		read []*kgo.Record
		want string // a part of the expected fault; "" if none is expected
	}{
		"complete":                       {[]*kgo.Record{a, b, c}, ""},
		"old values not yet cleaned":     {[]*kgo.Record{record(0, 0, "a", "1"), a, b, c}, ""},
		"tombstone cleaned":              {[]*kgo.Record{a, c}, ""},
		"unacknowledged record is found": {[]*kgo.Record{a, c, record(1, 1, "c", "2")}, ""},
		"key lost":                       {[]*kgo.Record{a}, `key "c" is lost`},
		"latest value lost": {[]*kgo.Record{record(0, 0, "a", "1"), c},
			`key "a" lost its latest value`},
		"deleted key returns": {[]*kgo.Record{record(0, 1, "b", "1"), a, c},
			`deleted key "b" has returned`},
		"other value at the offset": {[]*kgo.Record{record(0, 2, "a", "1"), c},
			`holds "1", not "2"`},
		"tombstone became empty value": {[]*kgo.Record{a,
			{Partition: 0, Offset: 3, Key: []byte("b"), Value: []byte{}}, c}, `key "b"`},
		"value of another key": {[]*kgo.Record{a, c, record(1, 1, "c", "9")}, "never sent"},
		"key of another topic": {[]*kgo.Record{a, c, record(1, 1, "x", "1")},
			`key "x" was never sent`},
		"moved to another partition": {[]*kgo.Record{a, record(0, 9, "c", "1")},
			"moved from partition 1 to 0"},
		"read twice": {[]*kgo.Record{a, a, c}, "offset 2 came after offset 2"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			err := newAccount().Check(test.read)
			switch {
			case test.want == "" && err != nil:
				t.Errorf("unexpected fault: %v", err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
				t.Errorf("got %v, want a fault with %q", err, test.want)
			}
		})
	}
}

func TestCheckListsTheFirstFaultsOnly(t *testing.T) {
	l := New()
	for offset := range int64(faultsMax + 5) {
		r := record(0, offset, string(rune('a'+offset)), "1")
		l.Sent(r)
		l.Acknowledged(r)
	}
	err := l.Check(nil)
	if err == nil || strings.Count(err.Error(), "is lost") != faultsMax ||
		!strings.Contains(err.Error(), "and 5 more") {
		t.Errorf("got %v", err)
	}
	if l.Keys() != faultsMax+5 || l.Count() != faultsMax+5 {
		t.Errorf("%d keys, %d records", l.Keys(), l.Count())
	}
}
