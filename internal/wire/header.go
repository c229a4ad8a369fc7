package wire

import (
	"encoding/binary"
	"errors"

	"github.com/twmb/franz-go/pkg/kbin"
)

// prefixBytes is what every request frame begins with, whatever its header version: API key, API
// version, correlation id.
const prefixBytes = 8

// errBadHeader is for a header that ends too early or lies about its lengths.
var errBadHeader = errors.New("malformed request header")

// prefix is the fixed part of a request header.
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

// parseHeaderRest splits what follows the prefix into client id and body. Header v1 is a nullable
// string; v2 adds tagged fields after it, none of which is known, so they are skipped. The client
// id is never compact, so that brokers of any age can read it.
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

// SkipTags skips a section of tagged fields. kmsg.SkipTags believes the section's count: six bytes
// that say 2^32-1 keep it busy for half a minute. This one stops where the bytes end.
func SkipTags(r *kbin.Reader) {
	for n := r.Uvarint(); n > 0 && r.Ok(); n-- {
		r.Uvarint() // tag
		r.Span(int(r.Uvarint()))
	}
}
