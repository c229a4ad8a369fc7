package api

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kbin"

	"heartwood.dev/heartwood/internal/wire"
)

// kmsg's decoders do not check counts before they use them. A tag section of six bytes with a wrong
// count keeps a decoder busy for half a minute, and a wrong array length makes it allocate 64 times
// the size of the remaining bytes (ADR 0036).
//
// Therefore the handler first checks each body against the API's shape: the body must contain all
// fields, each array must contain as many elements as its length says, and all arrays together may
// contain at most ElementsMax elements.

// ElementsMax limits the total number of array elements in one request, such as topics, partitions
// and settings.
const ElementsMax = 20_000

var errMalformed = errors.New("malformed body")

// ErrTooManyElements means that a body contains more than ElementsMax array elements.
var ErrTooManyElements = fmt.Errorf("more than %d elements in a body", ElementsMax)

// Shape lists the fields of a struct in the protocol's order. In flexible versions, tagged fields
// follow each struct.
type Shape []Field

// Field is one field of a struct. If it is not a tagged field, exactly one of size, text, blob,
// list and optional is set.
type Field struct {
	since, until int16 // first and last version that contain the field; until 0: no last version
	size         int   // size in bytes of a fixed-size field
	text         bool  // a string; in flexible versions also bytes
	blob         bool  // bytes preceded by their length
	list         bool  // an array of structs (elements) or of plain values (plain)
	elements     Shape
	plain        *Field
	optional     bool // a struct (elements) preceded by a byte, which is negative for null
	tag          int  // number of a tagged field plus 1; 0: not a tagged field
}

// Fixed returns a field with a fixed size in bytes.
func Fixed(size int) Field { return Field{size: size} }

// Text returns a field for a string.
func Text() Field { return Field{text: true} }

// Blob returns a field for bytes.
func Blob() Field { return Field{blob: true} }

// Array returns a field for an array of structs.
func Array(elements ...Field) Field { return Field{list: true, elements: elements} }

// PlainArray returns a field for an array of plain values.
func PlainArray(element Field) Field { return Field{list: true, plain: &element} }

// From returns the field with version as its first version.
func (f Field) From(version int16) Field { f.since = version; return f }

// To returns the field with version as its last version.
func (f Field) To(version int16) Field { f.until = version; return f }

// Optional returns a field for a struct that may be null.
func Optional(fields ...Field) Field { return Field{optional: true, elements: fields} }

// Tagged returns a tagged field that contains a struct. Shapes need it only for tagged fields that
// kmsg decodes, because their contents must be checked too.
func Tagged(tag int, fields ...Field) Field { return Field{tag: tag + 1, elements: fields} }

func (f *Field) in(version int16) bool {
	return f.since <= version && (f.until == 0 || version <= f.until)
}

// HasBlobs reports whether the shape contains byte fields. Such a field aliases the body after kmsg
// has decoded it.
func (s Shape) HasBlobs() bool {
	for i := range s {
		if f := &s[i]; f.blob || f.plain != nil && f.plain.blob || f.elements.HasBlobs() {
			return true
		}
	}
	return false
}

// Walk is the state of a walk through one body.
type Walk struct {
	kbin.Reader
	Version  int16
	Flexible bool
	elements int
}

// Check checks a body against the shape. It returns ErrTooManyElements or errMalformed if the body
// is invalid. The memory that it allocates does not depend on the counts in the body.
func (s Shape) Check(version int16, flexible bool, body []byte) error {
	w := Walk{Reader: kbin.Reader{Src: body}, Version: version, Flexible: flexible}
	w.Structure(s)
	switch {
	case w.elements > ElementsMax:
		return ErrTooManyElements
	case !w.Ok():
		return errMalformed
	}
	// Bytes after the last field are ignored, as in Kafka.
	return nil
}

// Structure walks through a struct's fields that exist in the version, and then through the tagged
// fields. The depth of the recursion depends only on the shape, not on the body.
func (w *Walk) Structure(s Shape) {
	for i := range s {
		if s[i].tag == 0 && s[i].in(w.Version) {
			w.field(&s[i])
		}
	}
	if w.Flexible {
		w.tags(s)
	}
}

func (w *Walk) field(f *Field) {
	switch {
	case f.text:
		w.text()
	case f.blob && !w.Flexible:
		w.NullableBytes()
	case f.blob:
		w.CompactNullableBytes()
	case f.list:
		w.array(f)
	case f.optional:
		if w.Int8() >= 0 && w.Ok() {
			w.Structure(f.elements)
		}
	default:
		w.Span(f.size)
	}
}

func (w *Walk) text() {
	if w.Flexible {
		w.CompactNullableBytes()
		return
	}
	// In other versions, the length of a string has 16 bits, and the length of bytes (blob) has 32
	// bits. Flexible versions use the same encoding for both.
	w.UnsafeNullableString()
}

// array walks through an array. A null array (-1) has no elements. The walk stops at the first
// invalid byte and at the limit. So even with a count of 2^31-1, it takes time only for the bytes
// that exist.
func (w *Walk) array(f *Field) {
	var n int32
	if w.Flexible {
		n = w.CompactArrayLen()
	} else {
		n = w.ArrayLen()
	}
	for range max(0, n) {
		w.elements++
		if !w.Ok() || w.elements > ElementsMax {
			return
		}
		if f.plain != nil {
			w.field(f.plain)
		} else {
			w.Structure(f.elements)
		}
	}
}

// tags walks through a struct's tagged fields. It checks the contents of the tagged fields that the
// shape lists, and skips the others.
func (w *Walk) tags(s Shape) {
	// If a shape has tagged fields, its last field is one.
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

func (w *Walk) taggedField(f *Field, content []byte) {
	inner := Walk{Reader: kbin.Reader{Src: content}, Version: w.Version, Flexible: true}
	inner.Structure(f.elements)
	if !inner.Ok() {
		w.Span(-1) // makes Check return errMalformed
	}
}

// PartitionsOfTopics is a list of topics by name, each with a list of partition indexes.
var PartitionsOfTopics = Array(Text(), PlainArray(Fixed(4)))
