package logstore

import (
	"context"
	"errors"
	"strings"
	"testing"

	"heartwood.dev/heartwood/internal/logstore/segmentlist"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/storetest"
)

// TestLookupCountsHeaders: headers count as values do, and older records lose them.
func TestLookupCountsHeaders(t *testing.T) {
	s := keyLookup{opts: LookupOptions{ValuesBytesMax: 1000}.withDefaults()}
	block := s.recent()
	for range 5 {
		block.add(KeyRecord{Value: []byte("value"), Headers: []record.Header{
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

// TestLookupLimitsDecompressedBytes: a lookup ends after a number of decompressed bytes, although
// it has read few.
func TestLookupLimitsDecompressedBytes(t *testing.T) {
	store := openStore(t, vfs.NewMem())
	log := createLog(t, store, keyedSettings(nil))
	for range 4 {
		appendBatch(t, log, storetest.Batch{Keys: []string{"other"},
			Value: strings.Repeat("x", 400)}.Bytes(t))
	}
	for limit, complete := range map[int64]bool{1000: false, 50_000: true} {
		found, err := log.Lookup(t.Context(), []byte("k"), LookupOptions{DecompressedMax: limit})
		if err != nil || found.Complete != complete {
			t.Errorf("limit %d: got %+v, error %v", limit, found, err)
		}
	}
}

// TestLookupChecksTheContextInEachBatch: the end of the context ends the search in a block of small
// batches, and within a batch.
func TestLookupChecksTheContextInEachBatch(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := keyLookup{ctx: ctx, opts: LookupOptions{}.withDefaults()}
	large := &record.Record{Value: make([]byte, lookupCheckBytes)}
	if err := s.searched(large); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := s.searched(large); !errors.Is(err, errLookupLimit) {
		t.Errorf("within a batch: error %v", err)
	}
}

// TestLookupBehindAnUnreadableBatch: records that are older than a batch that cannot be read are
// not reported, because that batch may contain the latest one.
func TestLookupBehindAnUnreadableBatch(t *testing.T) {
	s := keyLookup{opts: LookupOptions{}.withDefaults()}
	block := s.recent()
	block.add(KeyRecord{Offset: 1, Value: []byte("old")})
	block.forget()
	block.add(KeyRecord{Offset: 3, Value: []byte("new")})
	if err := s.take(block); !errors.Is(err, errLookupLimit) || len(s.result.Records) != 1 ||
		s.result.Records[0].Offset != 3 || s.values != 3 {
		t.Errorf("error %v, got %+v", err, s.result.Records)
	}
}

// TestLookupChecksTheChecksum: a batch whose bytes have changed on the disk is not reported.
func TestLookupChecksTheChecksum(t *testing.T) {
	disk := vfs.NewMem()
	store := openStore(t, disk)
	log := createLog(t, store, keyedSettings(nil))
	appendBatch(t, log, storetest.Batch{Keys: []string{"k"}, Value: "value"}.Bytes(t))
	list := log.list.Acquire()
	defer list.Release()
	h := list.Handles[0]
	header, err := h.HeaderAt(0)
	if err != nil {
		t.Fatal(err)
	}
	if err := (segmentlist.Batch{Handle: h, Header: header}).CheckCRC(); err != nil {
		t.Error(err)
	}
	changed := header
	changed.Batch = append(record.Batch{}, header.Batch...)
	changed.Batch[segmentlist.CRCEnd-1]++
	if err := (segmentlist.Batch{Handle: h, Header: changed}).CheckCRC(); !errors.Is(err,
		record.ErrCorrupt) {
		t.Errorf("of another checksum: error %v", err)
	}
}
