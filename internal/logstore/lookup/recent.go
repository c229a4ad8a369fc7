package lookup

import (
	"heartwood.dev/heartwood/internal/record"
)

const (
	// recordOverheadMin is the smallest size of a record without key, value and headers.
	recordOverheadMin = 7
	// headerOverhead is the memory of a header in addition to its bytes: two slices.
	headerOverhead = 48
)

// headerBytes returns the memory that headers use.
func headerBytes(headers []record.Header) int {
	n := headerOverhead * len(headers)
	for _, h := range headers {
		n += len(h.Key) + len(h.Value)
	}
	return n
}

// recordHeaderBytes returns what headerBytes would return for the headers of r, without decoding
// them.
func recordHeaderBytes(r *record.Record) int {
	n := headerOverhead * r.HeaderCount()
	for h := range r.AllHeaders() {
		n += len(h.Key) + len(h.Value)
	}
	return n
}

// recentRecords are the records of the key in a part of the log that is read forwards. If they
// exceed the limits, the oldest records lose their headers and values, and are then dropped,
// because the result of a lookup contains the newest records.
type recentRecords struct {
	recordsMax, bytesMax int
	records              []Record // in ascending order
	bytes                int      // total size of values and headers
	cut                  int      // records[:cut] have lost their values and headers
	dropped              bool
}

// recent returns an empty block with the remaining limits.
func (s *keyLookup) recent() *recentRecords {
	return &recentRecords{recordsMax: s.opts.RecordsMax - len(s.result.Records),
		bytesMax: s.opts.ValuesBytesMax - s.resultBytes}
}

func (b *recentRecords) add(r Record) {
	b.records = append(b.records, r)
	b.bytes += len(r.Value) + headerBytes(r.Headers)
	for b.bytes > b.bytesMax && b.cut < len(b.records) {
		oldest := &b.records[b.cut]
		b.bytes -= headerBytes(oldest.Headers)
		oldest.HeadersOmitted = oldest.HeadersOmitted || len(oldest.Headers) > 0
		oldest.Headers = nil
		n := max(0, min(len(oldest.Value), b.bytes-b.bytesMax))
		b.bytes -= n
		if n > 0 {
			oldest.Value = oldest.Value[:len(oldest.Value)-n]
		}
		if cap(oldest.Value) >= 2*len(oldest.Value) && n > 0 { // otherwise each add could copy the value
			oldest.Value = append([]byte{}, oldest.Value...)
		}
		if len(oldest.Value) == 0 {
			b.cut++
		}
	}
	if len(b.records) > b.recordsMax {
		b.bytes -= len(b.records[0].Value) + headerBytes(b.records[0].Headers)
		b.records, b.cut, b.dropped = b.records[1:], max(0, b.cut-1), true
	}
}

// forget drops all records, because a batch that cannot be read may contain newer records.
func (b *recentRecords) forget() {
	b.records, b.bytes, b.cut, b.dropped = nil, 0, 0, true
}
