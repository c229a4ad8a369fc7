package keys

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// Salt is a partition's secret: without it, two keys with the same hash cannot be constructed. It
// never leaves this disk; each replica has its own.
type Salt [16]byte

// SaltFile is the name of the salt's file in the directory of the partition
// (docs/format/key-salt.md).
const SaltFile = "key-salt"

// The salt's file contains magic and version, the secret, and a checksum of both.
const (
	saltMagic     = "hwsalt\x00\x01"
	saltFileBytes = len(saltMagic) + len(Salt{}) + 4
)

// Hasher returns the hasher with this secret.
func (s Salt) Hasher() Hasher { return NewHasher(s) }

// ID identifies the salt in sidecars without disclosing it: it is a hash under the salt.
func (s Salt) ID() uint64 {
	id, _ := s.Hasher().sum128([]byte("heartwood key salt"))
	return id
}

// Encode returns the content of the salt's file.
func (s Salt) Encode() []byte {
	content := append([]byte(saltMagic), s[:]...)
	return binary.BigEndian.AppendUint32(content, crc32.Checksum(content, castagnoli))
}

// DecodeSalt decodes the content of the salt's file; the error wraps ErrCorrupt. After the loss of
// a salt all sidecars are rebuilt; no other file depends on the salt.
func DecodeSalt(content []byte) (s Salt, err error) {
	if len(content) != saltFileBytes || string(content[:len(saltMagic)]) != saltMagic {
		return s, fmt.Errorf("%w: not a key salt of %d bytes", ErrCorrupt, saltFileBytes)
	}
	sum := binary.BigEndian.Uint32(content[saltFileBytes-4:])
	if sum != crc32.Checksum(content[:saltFileBytes-4], castagnoli) {
		return s, fmt.Errorf("%w: checksum of the key salt does not match", ErrCorrupt)
	}
	copy(s[:], content[len(saltMagic):])
	return s, nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)
