package keys

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
)

// Constants of the batch index (docs/internals/format/keys.md).
const (
	spanBatches    = 256 // number of batches in each span except the last one
	indexItemBytes = 48
	indexPageMax   = 21 // maximum number of items in a page
	indexPageBytes = indexPageMax * indexItemBytes
)

// indexItem describes a span: consecutive batches whose items can be read without the preceding
// items.
type indexItem struct {
	// context is the context of the span's first batch, with the batch's position and first
	// ordinal.
	context itemContext
	itemsAt int64 // position in the section of batches, not counting page checksums
	bytes   int   // size of the span's items
	crc     uint32
}

// indexSize returns the size of a sidecar's batch index in bytes.
func indexSize(batches int) int64 {
	items := int64(batches+spanBatches-1) / spanBatches
	pages := (items + indexPageMax - 1) / indexPageMax
	return items*indexItemBytes + pages*checksumBytes
}

func (i indexItem) append(b []byte) []byte {
	big, c := binary.BigEndian, i.context
	b = big.AppendUint32(b, uint32(c.position))
	b = big.AppendUint32(b, c.ordinal)
	b = big.AppendUint32(b, uint32(i.itemsAt))
	b = big.AppendUint32(b, i.crc)
	b = big.AppendUint32(b, uint32(c.leaderEpoch))
	b = big.AppendUint16(b, uint16(c.producerEpoch))
	b = big.AppendUint16(b, uint16(i.bytes))
	b = big.AppendUint64(b, uint64(c.next))
	b = big.AppendUint64(b, uint64(c.producerID))
	return big.AppendUint64(b, uint64(c.maxTimestamp))
}

// decodeIndexItem decodes an item from at least indexItemBytes bytes. A reader compares the item
// with the section of batches.
func decodeIndexItem(b []byte) indexItem {
	big := binary.BigEndian
	_ = b[indexItemBytes-1]
	return indexItem{
		context: itemContext{
			position: int64(big.Uint32(b)), ordinal: big.Uint32(b[4:]),
			leaderEpoch:   int32(big.Uint32(b[16:])),
			producerEpoch: int16(big.Uint16(b[20:])), next: int64(big.Uint64(b[24:])),
			producerID: int64(big.Uint64(b[32:])), maxTimestamp: int64(big.Uint64(b[40:])),
		},
		itemsAt: int64(big.Uint32(b[8:])), crc: big.Uint32(b[12:]), bytes: int(big.Uint16(b[22:])),
	}
}

// batchIndex is the batch index of the batches added so far. It is in memory while the batches are
// written, with 48 bytes for each 256 batches.
type batchIndex struct {
	digest   uint64
	items    []indexItem
	position int64 // total size of all batches' items
	batches  int
}

// add adds the next batch. encoded is the batch's item, encoded in the given context.
func (x *batchIndex) add(context itemContext, encoded []byte) {
	if x.batches%spanBatches == 0 {
		x.items = append(x.items, indexItem{context: context, itemsAt: x.position,
			crc: pageTag(x.digest, spanSection, x.position)})
	}
	last := &x.items[len(x.items)-1]
	last.crc = crc32.Update(last.crc, castagnoli, encoded)
	last.bytes += len(encoded)
	x.position += int64(len(encoded))
	x.batches++
}

// Locator finds batches by the ordinals of their records. For each batch it reads a few KiB: a
// binary search over the pages of the batch index, and the items of one span. In a sidecar without
// a batch index it reads all items up to the batch. It keeps the last span in memory, so searches
// for nearby ordinals read nothing.
type Locator struct {
	reader  *Reader
	page    []indexItem // current page of the batch index
	pageAt  int
	buffer  []byte
	span    []Batch
	batches *Batches // iterator for a sidecar without an index; nil before the first search
	read    *batchIndex
}

// Locator returns a Locator of the sidecar's batches.
func (r *Reader) Locator() *Locator { return &Locator{reader: r, pageAt: -1} }

// HasIndex reports whether the sidecar has a batch index.
func (r *Reader) HasIndex() bool { return r.header.indexBytes > 0 }

// Batch returns the batch that contains the record with the given ordinal. The error wraps
// ErrCorrupt if there is no such record.
func (l *Locator) Batch(ordinal uint32) (Batch, error) {
	if b, ok := l.inSpan(ordinal); ok {
		return b, nil
	}
	item, number, err := l.find(ordinal)
	if err != nil {
		return Batch{}, err
	}
	if err := l.load(item, number); err != nil {
		l.span = l.span[:0]
		return Batch{}, err
	}
	if b, ok := l.inSpan(ordinal); ok {
		return b, nil
	}
	return Batch{}, fmt.Errorf("%w: no batch has the record %d", ErrCorrupt, ordinal)
}

// inSpan searches the current span for the batch.
func (l *Locator) inSpan(ordinal uint32) (Batch, bool) {
	for _, b := range l.span {
		if b.FirstOrdinal <= ordinal && ordinal-b.FirstOrdinal < uint32(b.Records) {
			return b, true
		}
	}
	return Batch{}, false
}

// find returns the span that contains an ordinal. It is the last span whose first ordinal is at or
// below the given ordinal, because spans without records have the same first ordinal as the next
// span.
func (l *Locator) find(ordinal uint32) (indexItem, int, error) {
	if !l.reader.HasIndex() {
		return l.findWithoutIndex(ordinal)
	}
	spans := (l.reader.header.counts.Batches + spanBatches - 1) / spanBatches
	first, end := 0, (spans+indexPageMax-1)/indexPageMax // range of pages that may contain the item
	for end-first > 1 {
		middle := (first + end) / 2
		if err := l.loadPage(middle); err != nil {
			return indexItem{}, 0, err
		}
		if l.page[0].context.ordinal <= ordinal {
			first = middle
		} else {
			end = middle
		}
	}
	if err := l.loadPage(first); err != nil {
		return indexItem{}, 0, err
	}
	i := lastNotAbove(l.page, ordinal)
	return l.page[i], first*indexPageMax + i, nil
}

// lastNotAbove returns the number of the last item whose ordinal is at or below the given ordinal,
// or 0.
func lastNotAbove(items []indexItem, ordinal uint32) int {
	first, end := 0, len(items)
	for end-first > 1 {
		if middle := (first + end) / 2; items[middle].context.ordinal <= ordinal {
			first = middle
		} else {
			end = middle
		}
	}
	return first
}

// findWithoutIndex is like find, but for a sidecar without a batch index. It builds the index of
// the items up to the ordinal, and keeps this index in memory for lower ordinals.
func (l *Locator) findWithoutIndex(ordinal uint32) (indexItem, int, error) {
	if l.batches == nil {
		l.batches = l.reader.Batches()
		l.read = &batchIndex{digest: l.reader.header.identity.Digest}
	}
	var encoded []byte
	for l.batches.context.ordinal <= ordinal || l.read.batches%spanBatches != 0 {
		context := l.batches.context
		if !l.batches.Next() {
			if err := l.batches.Err(); err != nil {
				return indexItem{}, 0, err
			}
			break
		}
		encoded = context.appendItem(encoded[:0], l.batches.Batch())
		l.read.add(context, encoded)
	}
	if len(l.read.items) == 0 {
		return indexItem{}, 0, fmt.Errorf("%w: a record in no batch", ErrCorrupt)
	}
	i := lastNotAbove(l.read.items, ordinal)
	return l.read.items[i], i, nil
}

// loadPage reads a page of the index.
func (l *Locator) loadPage(number int) error {
	if l.pageAt == number {
		return nil
	}
	l.pageAt = -1
	r := l.reader
	where, position := r.header.extent(indexSection), int64(number)*(indexPageBytes+checksumBytes)
	content := l.sized(int(min(where.bytes-position, indexPageBytes+checksumBytes)))
	if err := readFull(r.file, content, where.begin+position, r.read); err != nil {
		return err
	}
	payload, err := checkPage(content, r.header.identity.Digest, indexSection, position)
	if err != nil {
		return err
	}
	l.page = l.page[:0]
	for ; len(payload) >= indexItemBytes; payload = payload[indexItemBytes:] {
		l.page = append(l.page, decodeIndexItem(payload))
	}
	l.pageAt = number
	return nil
}

// sized returns a buffer that is valid until the next call.
func (l *Locator) sized(n int) []byte {
	if cap(l.buffer) < n {
		l.buffer = make([]byte, n)
	}
	return l.buffer[:n]
}

// load reads the batches of a span.
func (l *Locator) load(item indexItem, number int) error {
	payload, err := l.items(item)
	if err != nil {
		return err
	}
	sum := crc32.Update(pageTag(l.reader.header.identity.Digest, spanSection, item.itemsAt),
		castagnoli, payload)
	if sum != item.crc {
		return fmt.Errorf("%w: checksum of the batches from %d on does not match", ErrCorrupt,
			number*spanBatches)
	}
	pages, context := pageReader{rest: payload}, item.context
	l.span = l.span[:0]
	for range min(spanBatches, l.reader.header.counts.Batches-number*spanBatches) {
		b, err := context.readItem(&pages)
		if err != nil {
			return err
		}
		if context.advance(b); context.position > l.reader.header.identity.LogBytes {
			return fmt.Errorf("%w: a batch at %d of %d bytes", ErrCorrupt, b.Position, b.SizeBytes)
		}
		l.span = append(l.span, b)
	}
	return pages.atEnd()
}

// items reads the items of a span, without the checksums of the pages that contain the items.
func (l *Locator) items(item indexItem) ([]byte, error) {
	const whole = streamPageBytes + checksumBytes
	where := l.reader.header.extent(batchesSection)
	begin := item.itemsAt/streamPageBytes*whole + item.itemsAt%streamPageBytes
	last := item.itemsAt + int64(item.bytes) - 1
	end := last/streamPageBytes*whole + last%streamPageBytes + 1
	if item.bytes == 0 || end > where.bytes {
		return nil, fmt.Errorf("%w: a span of %d bytes at %d", ErrCorrupt, item.bytes, item.itemsAt)
	}
	content := l.sized(int(end - begin))
	if err := readFull(l.reader.file, content, where.begin+begin, l.reader.read); err != nil {
		return nil, err
	}
	// A span is shorter than a page, so it contains the checksum of at most one page.
	if rest := streamPageBytes - item.itemsAt%streamPageBytes; rest < int64(item.bytes) {
		n := copy(content[rest:], content[rest+checksumBytes:])
		content = content[:int(rest)+n]
	}
	return content, nil
}

// A span fits into the field itemsBytes and into one page of batches.
const _ = uint(math.MaxUint16 - spanBatches*itemBytesMax)
