package metadata

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
)

// ID is a topic id of 16 bytes, as in the Kafka protocol. On Kubernetes it is the Topic's
// metadata.uid.
type ID [16]byte

// idTextBytes is the length of an ID as text: 16 bytes in base64 without padding.
const idTextBytes = 22

// idEncoding is strict, so that each id has only one text. The 22 characters have 132 bits, 4 more
// than an id; strict decoding rejects a text in which one of these 4 bits is set.
var idEncoding = base64.RawURLEncoding.Strict()

// NewID returns a random id (a version 4 UUID, as in Kafka). The id's text never begins with a
// dash, because command-line tools would parse it as an option.
func NewID() ID {
	for {
		var id ID
		_, _ = rand.Read(id[:]) // never fails, according to its documentation
		id[6] = id[6]&0x0f | 0x40
		id[8] = id[8]&0x3f | 0x80
		if id.String()[0] != '-' {
			return id
		}
	}
}

// ParseID parses an id in the form that Kafka's tools print: 22 characters of URL-safe base64.
func ParseID(text string) (ID, error) {
	var id ID
	if len(text) != idTextBytes {
		return id, fmt.Errorf("parse id %.40q: want %d characters of URL-safe base64, got %d", text,
			idTextBytes, len(text))
	}
	n, err := idEncoding.Decode(id[:], []byte(text))
	if err == nil && n < len(id) {
		// Package base64 ignores line breaks, so a text of 22 characters with a line break is decoded
		// without an error, but to fewer than 16 bytes.
		err = fmt.Errorf("%d bytes, want %d", n, len(id))
	}
	if err != nil {
		return ID{}, fmt.Errorf("parse id %q: %w", text, err)
	}
	return id, nil
}

// String returns the id in the form that Kafka's tools print.
func (id ID) String() string { return idEncoding.EncodeToString(id[:]) }

// tagLength is the length of a tag in characters, which represent 6 of an id's 16 bytes.
const tagLength = 8

// Tag returns the first characters of the id's text. They distinguish a topic from an earlier topic
// with the same name.
func (id ID) Tag() string { return id.String()[:tagLength] }
