package certname

import (
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/hex"
	"fmt"
	"strings"
)

// keywords maps attribute types to their keywords in RFC 2253. Java writes any other type as its
// OID.
var keywords = map[string]string{
	"2.5.4.3": "CN", "2.5.4.6": "C", "2.5.4.7": "L", "2.5.4.8": "ST", "2.5.4.9": "STREET",
	"2.5.4.10": "O", "2.5.4.11": "OU", "0.9.2342.19200300.100.1.25": "DC",
	"0.9.2342.19200300.100.1.1": "UID",
}

// rawAttribute is one AttributeTypeAndValue. Its value is still encoded.
type rawAttribute struct {
	Type  asn1.ObjectIdentifier
	Value asn1.RawValue
}

type rawRDNSET []rawAttribute

// DN returns the text of a DER-encoded distinguished name, such as Certificate.RawSubject.
func DN(der []byte) (string, error) {
	var sequence []rawRDNSET
	if rest, err := asn1.Unmarshal(der, &sequence); err != nil || len(rest) > 0 {
		return "", fmt.Errorf("decode distinguished name: %w", err)
	}
	names := make([]string, 0, len(sequence))
	for i := len(sequence) - 1; i >= 0; i-- {
		attributes := make([]string, 0, len(sequence[i]))
		for _, a := range sequence[i] {
			attributes = append(attributes, attributeText(a))
		}
		names = append(names, strings.Join(attributes, "+"))
	}
	return strings.Join(names, ","), nil
}

// attributeText returns the text of one attribute. If the value is not a string, the text has the
// same form as for an unknown type.
func attributeText(a rawAttribute) string {
	keyword, known := keywords[a.Type.String()]
	if !known {
		return a.Type.String() + "=#" + hex.EncodeToString(a.Value.FullBytes)
	}
	var value string
	if _, err := asn1.Unmarshal(a.Value.FullBytes, &value); err != nil {
		return keyword + "=#" + hex.EncodeToString(a.Value.FullBytes)
	}
	return keyword + "=" + escape(value)
}

// escape escapes special characters, and spaces at the beginning and end.
func escape(value string) string {
	var b strings.Builder
	lead := len(value) - len(strings.TrimLeft(value, " \r"))
	trail := len(strings.TrimRight(value, " \r"))
	for i, c := range value {
		switch {
		case c == 0:
			b.WriteString(`\00`)
			continue
		case strings.ContainsRune(`,=+<>#;"\`, c), i < lead, i >= trail:
			b.WriteByte('\\')
		}
		b.WriteRune(c)
	}
	return b.String()
}

// CommonName returns the only common name in a subject. Result ok is false if there is none or more
// than one: with more than one, readers could choose different ones.
func CommonName(subject pkix.Name) (name string, ok bool) {
	count := 0
	for _, a := range subject.Names {
		if a.Type.Equal(asn1.ObjectIdentifier{2, 5, 4, 3}) {
			count++
		}
	}
	return subject.CommonName, count == 1 && subject.CommonName != ""
}
