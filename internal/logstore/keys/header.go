package keys

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"math"
)

// Constants of the header (docs/internals/format/keys.md).
const (
	headerBytes         = 256
	headerMagic         = "hwkeys\x00\x01" // the last byte is the version
	hashSIP24           = 1
	probes              = 8
	probesAt            = 104
	indexBytesAt        = probesAt + 8*probes
	headerCRCAt         = headerBytes - 4
	bucketBitsMax       = 18
	bucketEntriesTarget = 256 // largest mean number of entries in a bucket
	batchCRCAt          = 17  // position of the checksum in a batch
	sidecarSections     = 4
)

// probe is the position and the checksum of a batch that Verify compares with the data file.
type probe struct{ position, crc uint32 }

// header is the header of a sidecar.
type header struct {
	saltID     uint64
	identity   Identity
	counts     Counts
	bucketBits int
	sections   [sidecarSections]int64 // size of each section in bytes, in the order of the file
	// indexBytes is the size of the batch index, at the end of the section of entries; 0 if there
	// is no batch index.
	indexBytes int64
	probes     [probes]probe
}

// entriesEnd returns the end of the last bucket in the section of entries.
func (h *header) entriesEnd() int64 { return h.sections[entriesSection-1] - h.indexBytes }

// extent returns the extent of a section in the file. The extent of the entries includes the batch
// index.
func (h *header) extent(part section) extent {
	if part == indexSection {
		e := h.extent(entriesSection)
		return extent{begin: e.begin + h.entriesEnd(), bytes: h.indexBytes}
	}
	e := extent{begin: headerBytes}
	for i := range section(sidecarSections) {
		e.bytes = h.sections[i]
		if i+1 == part {
			return e
		}
		e.begin += e.bytes
	}
	panic("a section that is not in the file")
}

func (h *header) encode() []byte {
	b := make([]byte, headerBytes)
	copy(b, headerMagic)
	b[8], b[9] = hashSIP24, byte(h.bucketBits)
	big := binary.BigEndian
	big.PutUint32(b[12:], uint32(h.counts.Batches))
	big.PutUint64(b[16:], h.saltID)
	big.PutUint64(b[24:], uint64(h.identity.Base))
	big.PutUint64(b[32:], uint64(h.identity.LogBytes))
	big.PutUint64(b[40:], h.identity.Digest)
	for i, n := range []int{h.counts.Records, h.counts.Tombstones, h.counts.NullKeys,
		h.counts.Opaque} {
		big.PutUint32(b[48+4*i:], uint32(n))
	}
	big.PutUint64(b[64:], uint64(h.counts.BodyBytes))
	for i, n := range h.sections {
		big.PutUint64(b[72+8*i:], uint64(n))
	}
	for i, p := range h.probes {
		big.PutUint32(b[probesAt+8*i:], p.position)
		big.PutUint32(b[probesAt+8*i+4:], p.crc)
	}
	big.PutUint64(b[indexBytesAt:], uint64(h.indexBytes))
	big.PutUint32(b[headerCRCAt:], crc32.Checksum(b[:headerCRCAt], castagnoli))
	return b
}

// decodeHeader decodes the header of a sidecar file of fileBytes bytes. The error wraps ErrStale if
// the header has another version, and otherwise ErrCorrupt.
func decodeHeader(b []byte, fileBytes int64) (h header, err error) {
	big := binary.BigEndian
	switch {
	case len(b) != headerBytes || string(b[:7]) != headerMagic[:7]:
		return h, fmt.Errorf("%w: no header", ErrCorrupt)
	case crc32.Checksum(b[:headerCRCAt], castagnoli) != big.Uint32(b[headerCRCAt:]):
		return h, fmt.Errorf("%w: checksum of the header does not match", ErrCorrupt)
	case b[7] != headerMagic[7] || b[8] != hashSIP24:
		return h, fmt.Errorf("%w: version %d, hash %d", ErrStale, b[7], b[8])
	}
	h.bucketBits = int(b[9])
	h.saltID = big.Uint64(b[16:])
	h.identity = Identity{Base: int64(big.Uint64(b[24:])), LogBytes: int64(big.Uint64(b[32:])),
		Digest: big.Uint64(b[40:])}
	h.counts = Counts{
		Batches: int(big.Uint32(b[12:])), Records: int(big.Uint32(b[48:])),
		Tombstones: int(big.Uint32(b[52:])),
		NullKeys:   int(big.Uint32(b[56:])), Opaque: int(big.Uint32(b[60:])),
		BodyBytes: int64(big.Uint64(b[64:])),
	}
	for i := range h.sections {
		h.sections[i] = int64(big.Uint64(b[72+8*i:]))
	}
	for i := range h.probes {
		h.probes[i] = probe{big.Uint32(b[probesAt+8*i:]), big.Uint32(b[probesAt+8*i+4:])}
	}
	h.indexBytes = int64(big.Uint64(b[indexBytesAt:]))
	err = h.check(fileBytes)
	return h, err
}

// check compares the numbers in the header with one another and with the file size, because readers
// use these numbers to allocate memory. It checks each number before it adds the number to others,
// because a sum must not overflow.
func (h *header) check(fileBytes int64) error {
	c, left := h.counts, fileBytes-headerBytes
	for _, n := range h.sections {
		if n < 0 || n > left {
			return fmt.Errorf("%w: section of %d bytes, want at most %d", ErrCorrupt, n, left)
		}
		left -= n
	}
	switch {
	case left != 0:
		return fmt.Errorf("%w: %d bytes after the last section", ErrCorrupt, left)
	case h.identity.Base < 0 || h.identity.LogBytes < 0 || h.identity.LogBytes > math.MaxInt32:
		return fmt.Errorf("%w: segment %d of %d bytes", ErrCorrupt, h.identity.Base,
			h.identity.LogBytes)
	case c.Records > RecordsMax, c.Tombstones > c.Records, c.NullKeys > c.Records-c.Tombstones,
		c.BodyBytes < 0:
		return fmt.Errorf("%w: %d records, %d tombstones, %d without a key", ErrCorrupt, c.Records,
			c.Tombstones, c.NullKeys)
	case c.Opaque > c.Batches || int64(c.Batches) > h.identity.LogBytes/batchBytesMin:
		return fmt.Errorf("%w: %d batches in %d bytes", ErrCorrupt, c.Batches, h.identity.LogBytes)
	case h.bucketBits != bucketBits(c.Entries()),
		h.sections[bucketsSection-1] != bucketsBytes(h.bucketBits):
		return fmt.Errorf("%w: 2^%d buckets in %d bytes", ErrCorrupt, h.bucketBits,
			h.sections[bucketsSection-1])
	case h.indexBytes != 0 && h.indexBytes != indexSize(c.Batches):
		return fmt.Errorf("%w: a batch index of %d bytes for %d batches", ErrCorrupt, h.indexBytes,
			c.Batches)
	case h.entriesEnd() < int64(c.Entries())*entryBytes:
		return fmt.Errorf("%w: %d entries in %d bytes", ErrCorrupt, c.Entries(), h.entriesEnd())
	}
	return nil
}

// bucketBits returns the smallest k for which 2^k buckets have at most 256 entries on average, but
// at most bucketBitsMax.
func bucketBits(entries int) int {
	k := 0
	for k < bucketBitsMax && entries>>k > bucketEntriesTarget {
		k++
	}
	return k
}

// bucketsBytes returns the size of a bucket table with 2^k buckets.
func bucketsBytes(k int) int64 {
	numbers := int64(1)<<k + 1
	pages := (numbers + bucketPageMax - 1) / bucketPageMax
	return 8*numbers + checksumBytes*pages
}

// verify compares the probes' checksums with the checksums at the probes' positions in the data
// file.
func (h *header) verify(data io.ReaderAt) error {
	if h.counts.Batches == 0 {
		return nil
	}
	for _, p := range h.probes {
		var crc [4]byte
		if n, err := data.ReadAt(crc[:], int64(p.position)+batchCRCAt); n < len(crc) {
			return fmt.Errorf("%w: no batch at position %d: %w", ErrStale, p.position, err)
		}
		if binary.BigEndian.Uint32(crc[:]) != p.crc {
			return fmt.Errorf("%w: batch at position %d has another checksum", ErrStale, p.position)
		}
	}
	return nil
}

// digest computes the digest of an Identity, batch by batch.
type digest struct {
	state   sipState
	batches uint64
}

// newDigest returns the digest of no batches. It uses the hasher with the partition's salt. Without
// the salt, other data with the same digest therefore cannot be constructed.
func newDigest(h Hasher) digest { return digest{state: h.start()} }

func (d *digest) add(b Batch) {
	d.state.absorbWord(uint64(b.BaseOffset))
	d.state.absorbWord(uint64(b.SizeBytes))
	d.state.absorbWord(uint64(b.CRC))
	d.batches++
}

// sum returns the digest of the batches so far. It never returns 0, which means an unknown digest.
func (d *digest) sum() uint64 {
	state := d.state
	state.absorbWord(d.batches)
	first, _ := state.finish()
	return max(first, 1)
}
