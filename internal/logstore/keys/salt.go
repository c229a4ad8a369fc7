package keys

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// Salt is a secret of one replica of a partition. Without the salt, two keys with the same hash
// cannot be constructed. The salt is stored only on the replica's disk, and never sent to another
// broker.
type Salt [16]byte

// SaltFile is the name of the salt's file in the partition's directory
// (docs/internals/format/key-salt.md).
const SaltFile = "key-salt"

// The salt's file contains the magic bytes with the version, the secret, and a checksum of
// everything before it.
const (
	saltMagic     = "hwsalt\x00\x01"
	saltFileBytes = len(saltMagic) + len(Salt{}) + 4
)

// Hasher returns the hasher that uses the salt as its secret.
func (s Salt) Hasher() Hasher { return NewHasher(s) }

// ID returns the number that identifies the salt in sidecars. The number does not disclose the
// salt: it is the hash of a constant with the salt as the secret.
func (s Salt) ID() uint64 {
	id, _ := s.Hasher().sum128([]byte("heartwood key salt"))
	return id
}

// Encode returns the content of the salt's file.
func (s Salt) Encode() []byte {
	content := append([]byte(saltMagic), s[:]...)
	return binary.BigEndian.AppendUint32(content, crc32.Checksum(content, castagnoli))
}

// DecodeSalt decodes the content of the salt's file. If the content is damaged, the error wraps
// ErrCorrupt. After the loss of a salt, the caller creates another salt, and all sidecars are
// rebuilt. No other file depends on the salt.
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
