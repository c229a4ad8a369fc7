package keys

import (
	"cmp"
	"encoding/binary"
)

// Sizes of an entry and of its hash (docs/internals/format/keys.md).
const (
	hashBytes  = 12
	entryBytes = hashBytes + 4
)

// append encodes a hash in big endian. The encoded bytes therefore have the same order as the
// hashes.
func (h Hash) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, h.High)
	return binary.BigEndian.AppendUint32(b, h.Low)
}

// decodeHash decodes a hash from at least 12 bytes.
func decodeHash(b []byte) Hash {
	return Hash{High: binary.BigEndian.Uint64(b), Low: binary.BigEndian.Uint32(b[8:])}
}

// packed is an entry in 16 bytes. Comparing packed entries as numbers, first high and then tail,
// gives the order of the entries in a sidecar.
type packed struct{ high, tail uint64 }

// pack returns an entry in packed form. tail contains Hash.Low, the ordinal and the flags, as in
// the file.
func pack(e Entry) packed {
	tail := uint64(e.Hash.Low)<<32 | uint64(e.Ordinal)<<2
	if e.Tombstone {
		tail |= tombstoneFlag
	}
	return packed{e.Hash.High, tail}
}

func (p packed) entry() Entry {
	return Entry{
		Hash: Hash{High: p.high, Low: uint32(p.tail >> 32)}, Ordinal: uint32(p.tail) >> 2,
		Tombstone: p.tail&tombstoneFlag != 0,
	}
}

func (p packed) less(other packed) bool {
	return p.high < other.high || p.high == other.high && p.tail < other.tail
}

// compare orders entries in the order of a sidecar. Two entries of a segment are never equal,
// because their ordinals differ.
func compare(a, b packed) int {
	if c := cmp.Compare(a.high, b.high); c != 0 {
		return c
	}
	return cmp.Compare(a.tail, b.tail)
}

func (p packed) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, p.high)
	return binary.BigEndian.AppendUint64(b, p.tail)
}

func decodePacked(b []byte) packed {
	_ = b[entryBytes-1]
	return packed{binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:])}
}

// Page is a sequence of encoded entries, in the order of the sidecar. It is valid until the next
// call of the iterator that returned it.
type Page []byte

// Len returns the number of entries.
func (p Page) Len() int { return len(p) / entryBytes }

// At returns entry i, which must be below Len.
func (p Page) At(i int) Entry { return decodePacked(p[i*entryBytes:]).entry() }
