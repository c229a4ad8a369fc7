package metadata

import (
	"strings"
	"testing"
)

func TestIDTextMatchesKafka(t *testing.T) {
	id := ID{0x55, 0x0e, 0x84, 0x00, 0xe2, 0x9b, 0x41, 0xd4, 0xa7, 0x16, 0x44, 0x66, 0x55, 0x44,
		0x00, 0x00}
	// The text was generated in Java with new Uuid(0x550e8400e29b41d4L,
	// 0xa716446655440000L).toString().
	const text = "VQ6EAOKbQdSnFkRmVUQAAA"
	if id.String() != text {
		t.Errorf("text %s, want %s", id, text)
	}
	back, err := ParseID(text)
	if err != nil || back != id {
		t.Errorf("ParseID returned %v, error %v", back, err)
	}
}

func TestParseIDRejectsInvalidText(t *testing.T) {
	for _, text := range []string{
		"", "VQ6EAOKbQdSnFkRmVUQAA", "VQ6EAOKbQdSnFkRmVUQAAAA", "VQ6EAOKbQdSnFkRmVUQAA+",
		"VQ6EAOKbQdSnFkRmVUQAA=",
		// An unused bit is set, so this would be a second text for the same id.
		"VQ6EAOKbQdSnFkRmVUQAAB",
		"VQ6EAOKb\nQdSnFkRmVUQA", "VQ6EAOKbQdSnFkRmVUQAAA\n",
		"0000000\r0000000000000\n", // found by FuzzParseID: package base64 ignores the line breaks
	} {
		if id, err := ParseID(text); err == nil {
			t.Errorf("%q was parsed as %v", text, id)
		}
	}
}

func FuzzParseID(f *testing.F) {
	f.Add("VQ6EAOKbQdSnFkRmVUQAAA")
	f.Add("AAAAAAAAAAAAAAAAAAAAAA")
	f.Add("-_-_-_-_-_-_-_-_-_-_-w")
	f.Fuzz(func(t *testing.T, text string) {
		if id, err := ParseID(text); err == nil && id.String() != text {
			t.Errorf("%q parsed to %v, which prints %q", text, id, id.String())
		}
	})
}

func TestNewIDNeverBeginsWithADash(t *testing.T) {
	seen := map[ID]bool{}
	for range 2000 {
		id := NewID()
		if strings.HasPrefix(id.String(), "-") {
			t.Fatalf("id %s begins with a dash", id)
		}
		if seen[id] || id == (ID{}) {
			t.Fatalf("id %s is a duplicate or zero", id)
		}
		seen[id] = true
	}
}
