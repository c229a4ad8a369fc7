package wire

import (
	"encoding/binary"
	"errors"

	"github.com/twmb/franz-go/pkg/kbin"
)

// prefixBytes is the size of the fields that every request header begins with, whatever its
// version: API key, API version, correlation id.
const prefixBytes = 8

// errBadHeader is a header that ends early or contains a wrong length.
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

// parseHeaderRest splits the bytes after the prefix into client id and body. Header v1 has a
// nullable string; v2 adds tagged fields after it, none of which is known, so they are skipped. The
// client id is never in compact form, so that brokers of any version can read it.
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

// SkipTags skips a section of tagged fields. kmsg.SkipTags loops as often as the section's count
// says: six bytes that say 2^32-1 keep it busy for half a minute. This one stops at the end of the
// bytes.
func SkipTags(r *kbin.Reader) {
	for n := r.Uvarint(); n > 0 && r.Ok(); n-- {
		r.Uvarint() // tag
		r.Span(int(r.Uvarint()))
	}
}
