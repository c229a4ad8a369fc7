package wire

import (
	"encoding/binary"
	"errors"

	"github.com/twmb/franz-go/pkg/kbin"
)

// prefixBytes is the size of the fields at the beginning of every version of the request header:
// API key, API version and correlation id.
const prefixBytes = 8

// errBadHeader is the error for a header that ends early or contains an invalid length.
var errBadHeader = errors.New("malformed request header")

type prefix struct {
	key, version  int16
	correlationID int32
}

func parsePrefix(b [prefixBytes]byte) prefix {
	return prefix{
		key:           int16(binary.BigEndian.Uint16(b[0:])),
		version:       int16(binary.BigEndian.Uint16(b[2:])),
		correlationID: int32(binary.BigEndian.Uint32(b[4:])),
	}
}

// parseHeaderRest splits the bytes after the prefix into client id and body. In header v1, the
// client id is a nullable string. In header v2, tagged fields follow; they are skipped, because
// none is defined. Even in v2 the client id is not a compact string, so that brokers can read it
// from headers of unknown versions.
func parseHeaderRest(rest []byte, flexible bool) (clientID string, body []byte, err error) {
	r := kbin.Reader{Src: rest}
	if id := r.NullableString(); id != nil {
		clientID = *id
	}
	if flexible {
		SkipTags(&r)
	}
	if !r.Ok() {
		return "", nil, errBadHeader
	}
	return clientID, r.Src, nil
}

// SkipTags skips a section of tagged fields, and stops at the end of the bytes. kmsg.SkipTags, in
// contrast, loops as often as the section's count says: six bytes with the count 2^32-1 keep it
// busy for half a minute.
func SkipTags(r *kbin.Reader) {
	for n := r.Uvarint(); n > 0 && r.Ok(); n-- {
		r.Uvarint() // tag
		r.Span(int(r.Uvarint()))
	}
}
