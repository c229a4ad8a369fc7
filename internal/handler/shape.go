package handler

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kbin"

	"heartwood.dev/heartwood/internal/wire"
)

// kmsg's decoders do not check counts: a tag section of six bytes keeps a decoder busy for half a
// minute, and an array length makes a decoder allocate 64 times the remaining bytes (ADR 0036). So
// the handler first walks each body by the shape of its API: a valid body ends where its fields
// end, holds as many elements as its arrays announce, and at most elementsMax.

// elementsMax bounds the topics, partitions, settings and so on of one request together.
const elementsMax = 20_000

var (
	errMalformed       = errors.New("malformed body")
	errTooManyElements = fmt.Errorf("more than %d elements in a body", elementsMax)
)

// shape is the fields of a struct in wire order. In flexible versions tagged fields follow each
// struct.
type shape []field

// field is one field of a struct. Exactly one of size, text, blob, list and optional is set in a
// field without a tag.
type field struct {
	since, until int16 // versions that have the field; until 0: all from since on
	size         int   // bytes of a field of fixed size
	text         bool  // a string, or, in a flexible version, bytes, after its length
	blob         bool  // bytes, after their length
	list         bool  // an array, of structs (elements) or of plain values (plain)
	elements     shape
	plain        *field
	optional     bool // a struct (elements) that may be null, after a byte that says so
	tag          int  // tagged fields only: tag + 1
}

func fixed(size int) field          { return field{size: size} }
func text() field                   { return field{text: true} }
func blob() field                   { return field{blob: true} }
func array(elements ...field) field { return field{list: true, elements: elements} }
func plainArray(of field) field     { return field{list: true, plain: &of} }

// from and to limit the versions of a field.
func (f field) from(version int16) field { f.since = version; return f }
func (f field) to(version int16) field   { f.until = version; return f }

// optional is a struct that may be null.
func optional(fields ...field) field { return field{optional: true, elements: fields} }

// tagged is a struct in a tagged field: kmsg decodes the tagged fields that it knows, so the
// handler checks these as well.
func tagged(tag int, fields ...field) field { return field{tag: tag + 1, elements: fields} }

func (f *field) in(version int16) bool {
	return f.since <= version && (f.until == 0 || version <= f.until)
}

// hasBlobs reports whether a request of the shape has byte fields, which alias its body once
// decoded.
func (s shape) hasBlobs() bool {
	for i := range s {
		if f := &s[i]; f.blob || f.plain != nil && f.plain.blob || f.elements.hasBlobs() {
			return true
		}
	}
	return false
}

// walk is one pass over one body.
type walk struct {
	kbin.Reader
	version  int16
	flexible bool
	elements int
}

// check walks a body. It returns errTooManyElements or errMalformed, and allocates nothing that
// depends on the counts in the body.
func (s shape) check(version int16, flexible bool, body []byte) error {
	w := walk{Reader: kbin.Reader{Src: body}, version: version, flexible: flexible}
	w.structure(s)
	switch {
	case w.elements > elementsMax:
		return errTooManyElements
	case !w.Ok():
		return errMalformed
	}
	// Bytes behind the last field are ignored, as in Kafka.
	return nil
}

// structure walks the fields of the version, then the tags. The recursion is as deep as the shape,
// whatever the body contains.
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
	// The length of a string has 16 bits, that of bytes (blob) 32; flexible versions do not
	// distinguish them.
	w.UnsafeNullableString()
}

// array walks an array; a null array (-1) has no elements. It stops at the first invalid byte or at
// the limit, so a count of 2^31-1 costs no more than the bytes that exist.
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

// tags walks the tagged fields of a struct: the tagged fields in its shape as structs, all others
// as bytes.
func (w *walk) tags(s shape) {
	if len(s) == 0 || s[len(s)-1].tag == 0 { // tagged fields are last in a shape
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
		w.Span(-1) // marks the whole body as malformed
	}
}
