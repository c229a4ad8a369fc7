package handler

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kbin"

	"heartwood.dev/heartwood/internal/wire"
)

// The decoders of kmsg do not check counts before they use them. With a wrong count, a tag section
// of six bytes occupies a decoder for half a minute, and an array length makes a decoder allocate
// 64 times the remaining bytes (ADR 0036).
//
// Therefore the handler first walks through each body by means of the API's shape. The walk checks
// that the body contains all fields, that each array has as many elements as its length says, and
// that all arrays together have at most elementsMax elements.

// elementsMax limits the number of topics, partitions, settings and other array elements of one
// request, as their sum.
const elementsMax = 20_000

var (
	errMalformed       = errors.New("malformed body")
	errTooManyElements = fmt.Errorf("more than %d elements in a body", elementsMax)
)

// shape lists the fields of a struct in the order of the protocol. In flexible versions each struct
// is followed by tagged fields.
type shape []field

// field is one field of a struct. A field without a tag sets exactly one of size, text, blob, list
// and optional.
type field struct {
	since, until int16 // first and last version with the field; until 0: no last version
	size         int   // size in bytes of a field whose size is fixed
	text         bool  // a string; in a flexible version also bytes
	blob         bool  // bytes, preceded by their length
	list         bool  // an array of structs (elements) or of plain values (plain)
	elements     shape
	plain        *field
	optional     bool // a struct (elements), preceded by a byte that is negative for null
	tag          int  // number of a tagged field plus 1; 0: not a tagged field
}

func fixed(size int) field          { return field{size: size} }
func text() field                   { return field{text: true} }
func blob() field                   { return field{blob: true} }
func array(elements ...field) field { return field{list: true, elements: elements} }
func plainArray(of field) field     { return field{list: true, plain: &of} }

// from and to return the field with a first or last version.
func (f field) from(version int16) field { f.since = version; return f }
func (f field) to(version int16) field   { f.until = version; return f }

// optional returns a field for a struct that may be null.
func optional(fields ...field) field { return field{optional: true, elements: fields} }

// tagged returns a tagged field that contains a struct. It is used for the tagged fields that kmsg
// decodes, because their contents must be checked too.
func tagged(tag int, fields ...field) field { return field{tag: tag + 1, elements: fields} }

func (f *field) in(version int16) bool {
	return f.since <= version && (f.until == 0 || version <= f.until)
}

// hasBlobs reports whether the shape contains byte fields. When kmsg has decoded such a field, it
// aliases the body.
func (s shape) hasBlobs() bool {
	for i := range s {
		if f := &s[i]; f.blob || f.plain != nil && f.plain.blob || f.elements.hasBlobs() {
			return true
		}
	}
	return false
}

// walk is the state of one walk through one body.
type walk struct {
	kbin.Reader
	version  int16
	flexible bool
	elements int
}

// check walks through a body. It returns errTooManyElements or errMalformed if the body is invalid.
// The memory that it allocates does not depend on the counts in the body.
func (s shape) check(version int16, flexible bool, body []byte) error {
	w := walk{Reader: kbin.Reader{Src: body}, version: version, flexible: flexible}
	w.structure(s)
	switch {
	case w.elements > elementsMax:
		return errTooManyElements
	case !w.Ok():
		return errMalformed
	}
	// Bytes after the last field are ignored, as in Kafka.
	return nil
}

// structure walks through the fields of a struct that exist in the version, and then through the
// tagged fields. The depth of the recursion depends only on the shape, and not on the body.
func (w *walk) structure(s shape) {
	for i := range s {
		if s[i].tag == 0 && s[i].in(w.version) {
			w.field(&s[i])
		}
	}
	if w.flexible {
		w.tags(s)
	}
}

func (w *walk) field(f *field) {
	switch {
	case f.text:
		w.text()
	case f.blob && !w.flexible:
		w.NullableBytes()
	case f.blob:
		w.CompactNullableBytes()
	case f.list:
		w.array(f)
	case f.optional:
		if w.Int8() >= 0 && w.Ok() {
			w.structure(f.elements)
		}
	default:
		w.Span(f.size)
	}
}

func (w *walk) text() {
	if w.flexible {
		w.CompactNullableBytes()
		return
	}
	// The length of a string has 16 bits, and the length of bytes (blob) has 32. Flexible versions
	// use the same length for both.
	w.UnsafeNullableString()
}

// array walks through an array. A null array (-1) has no elements. The walk stops at the first
// invalid byte and at the limit, so a wrong count of 2^31-1 takes as little time as the bytes that
// exist.
func (w *walk) array(f *field) {
	var n int32
	if w.flexible {
		n = w.CompactArrayLen()
	} else {
		n = w.ArrayLen()
	}
	for range max(0, n) {
		w.elements++
		if !w.Ok() || w.elements > elementsMax {
			return
		}
		if f.plain != nil {
			w.field(f.plain)
		} else {
			w.structure(f.elements)
		}
	}
}

// tags walks through the tagged fields of a struct. It checks the contents of those that the shape
// lists, and skips the others.
func (w *walk) tags(s shape) {
	// the last field of a shape is a tagged field, if it has any
	if len(s) == 0 || s[len(s)-1].tag == 0 {
		wire.SkipTags(&w.Reader)
		return
	}
	for n := w.Uvarint(); n > 0 && w.Ok(); n-- {
		tag := int(w.Uvarint())
		content := w.Span(int(w.Uvarint()))
		for i := range s {
			if s[i].tag == tag+1 && w.Ok() {
				w.taggedField(&s[i], content)
			}
		}
	}
}

func (w *walk) taggedField(f *field, content []byte) {
	inner := walk{Reader: kbin.Reader{Src: content}, version: w.version, flexible: true}
	inner.structure(f.elements)
	if !inner.Ok() {
		w.Span(-1) // makes check return errMalformed
	}
}
