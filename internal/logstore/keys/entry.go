package keys

import (
	"cmp"
	"encoding/binary"
)

// Bytes of an entry, and of the hash in it (docs/format/keys.md).
const (
	hashBytes  = 12
	entryBytes = hashBytes + 4
)

// append encodes a hash: big endian, so that the order of the bytes is that of the hashes.
func (h Hash) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, h.High)
	return binary.BigEndian.AppendUint32(b, h.Low)
}

// decodeHash reads what append made; there are at least 12 bytes.
func decodeHash(b []byte) Hash {
	return Hash{High: binary.BigEndian.Uint64(b), Low: binary.BigEndian.Uint32(b[8:])}
}

// packed is an entry as it is sorted: 16 bytes, whose order as numbers is the order of entries.
type packed struct{ high, tail uint64 }

// pack: the tail is what is left of the hash, then ordinal and flags as they stand in the file.
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

// compare orders entries; no two of a segment are equal, for no two have one ordinal.
func compare(a, b packed) int {
	if c := cmp.Compare(a.high, b.high); c != 0 {
		return c
	}
	return cmp.Compare(a.tail, b.tail)
}

// append encodes the entry; decodePacked reads it.
func (p packed) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, p.high)
	return binary.BigEndian.AppendUint64(b, p.tail)
}

func decodePacked(b []byte) packed {
	_ = b[entryBytes-1]
	return packed{binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:])}
}

// Page is entries in their order, as they stand in the file. It is valid until its iterator goes
// on.
type Page []byte

// Len is the number of entries.
func (p Page) Len() int { return len(p) / entryBytes }

// At returns an entry; i is below Len.
func (p Page) At(i int) Entry { return decodePacked(p[i*entryBytes:]).entry() }
