package logstore

import (
	"errors"
	"strings"
	"testing"

	"heartwood.dev/heartwood/internal/logstore/lookup"
	"heartwood.dev/heartwood/internal/logstore/segmentlist"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/storetest"
)

// TestLookupLimitsDecompressedBytes checks that a lookup ends once it has decompressed the maximum
// number of bytes, even if it has read few bytes.
func TestLookupLimitsDecompressedBytes(t *testing.T) {
	store := openStore(t, vfs.NewMem())
	log := createLog(t, store, keyedSettings(nil))
	for range 4 {
		appendBatch(t, log, storetest.Batch{Keys: []string{"other"},
			Value: strings.Repeat("x", 400)}.Bytes(t))
	}
	for limit, complete := range map[int64]bool{1000: false, 50_000: true} {
		found, err := lookup.Find(t.Context(), log.Compaction(), []byte("k"),
			lookup.Options{DecompressedMax: limit})
		if err != nil || found.Complete != complete {
			t.Errorf("limit %d: got %+v, error %v", limit, found, err)
		}
	}
}

// TestLookupChecksTheChecksum checks that a lookup does not return a batch whose bytes have changed
// on the disk.
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
	changed.Batch[20]++ // the last byte of the checksum
	if err := (segmentlist.Batch{Handle: h, Header: changed}).CheckCRC(); !errors.Is(err,
		record.ErrCorrupt) {
		t.Errorf("of another checksum: error %v", err)
	}
}
