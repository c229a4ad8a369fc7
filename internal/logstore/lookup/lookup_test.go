package lookup

import (
	"context"
	"errors"
	"strings"
	"testing"

	"heartwood.dev/heartwood/internal/record"
)

// TestLookupCountsHeaders checks that headers count like values, and that older records lose their
// headers.
func TestLookupCountsHeaders(t *testing.T) {
	s := keyLookup{opts: Options{ValuesBytesMax: 1000}.withDefaults()}
	block := s.recent()
	for range 5 {
		block.add(Record{Value: []byte("value"), Headers: []record.Header{
			{Key: []byte("h"), Value: []byte(strings.Repeat("x", 400))}}})
	}
	held := 0
	for i, r := range block.records {
		held += len(r.Value) + headerBytes(r.Headers)
		if kept := r.Headers != nil; kept != (i >= 3) ||
			kept == r.HeadersOmitted {
			t.Errorf("record %d of 5: headers are kept: %t, omitted: %t", i, kept,
				r.HeadersOmitted)
		}
	}
	if held != block.bytes || held > 1000 || len(block.records) != 5 {
		t.Errorf("%d records hold %d bytes, counted %d", len(block.records), held, block.bytes)
	}
}

// TestLookupChecksTheContextInEachBatch checks that the end of the context ends the search in a
// block of small batches, and within a batch.
func TestLookupChecksTheContextInEachBatch(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := keyLookup{ctx: ctx, opts: Options{}.withDefaults()}
	large := &record.Record{Value: make([]byte, lookupCheckBytes)}
	if err := s.searched(large); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := s.searched(large); !errors.Is(err, errLookupLimit) {
		t.Errorf("within a batch: error %v", err)
	}
}

// TestLookupBehindAnUnreadableBatch checks that records older than an unreadable batch are not
// returned, because that batch may contain the latest record.
func TestLookupBehindAnUnreadableBatch(t *testing.T) {
	s := keyLookup{opts: Options{}.withDefaults()}
	block := s.recent()
	block.add(Record{Offset: 1, Value: []byte("old")})
	block.forget()
	block.add(Record{Offset: 3, Value: []byte("new")})
	if err := s.take(block); !errors.Is(err, errLookupLimit) || len(s.result.Records) != 1 ||
		s.result.Records[0].Offset != 3 || s.resultBytes != 3 {
		t.Errorf("error %v, got %+v", err, s.result.Records)
	}
}
