package pki

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"time"
)

// Keys in an encoded authority.
const (
	KeyCertificate = "ca.crt"
	KeyPrivate     = "ca.key"

	keyNextCertificate = "next.crt"
	keyNextPrivate     = "next.key"
	keyRetired         = "retired.crt"
	keyState           = "state.json"
)

var errNotCA = errors.New("the certificate is not that of a CA")

// certificatesMax is the maximum number of certificates in one PEM text.
const certificatesMax = 64

// state contains the parts of an encoded authority that are not certificates or keys.
type state struct {
	Published time.Time   `json:"published,omitzero"` // of the next CA
	Retired   []time.Time `json:"retired,omitempty"`  // values of Until, in the order of keyRetired
	Replaced  string      `json:"replaced,omitempty"`
	Lost      time.Time   `json:"lost,omitzero"`
}

// Encode returns the authority as a Secret's data.
func (a *Authority) Encode() (map[string][]byte, error) {
	data := map[string][]byte{KeyCertificate: encodeCertificate(a.Issuing.Certificate)}
	encoded := state{Replaced: a.Replaced, Lost: a.Lost}
	var err error
	if a.Issuing.Key != nil {
		if data[KeyPrivate], err = encodeKey(a.Issuing.Key); err != nil {
			return nil, err
		}
	}
	if a.Next != nil {
		if data[keyNextPrivate], err = encodeKey(a.Next.Key); err != nil {
			return nil, err
		}
		data[keyNextCertificate] = encodeCertificate(a.Next.Certificate)
		encoded.Published = a.Next.Published
	}
	for _, retired := range a.Retired {
		data[keyRetired] = append(data[keyRetired], encodeCertificate(retired.Certificate)...)
		encoded.Retired = append(encoded.Retired, retired.Until)
	}
	if data[keyState], err = json.Marshal(encoded); err != nil {
		return nil, err
	}
	return data, nil
}

// Decode is the inverse of Encode. It fails if a part is missing or invalid, because a new CA in
// place of a damaged one would lock out every client.
func Decode(data map[string][]byte) (*Authority, error) {
	var encoded state
	if err := json.Unmarshal(data[keyState], &encoded); err != nil {
		return nil, fmt.Errorf("decode %s: %w", keyState, err)
	}
	a := &Authority{Replaced: encoded.Replaced, Lost: encoded.Lost}
	var err error
	if a.Issuing, err = decodeIssuing(data, encoded); err != nil {
		return nil, fmt.Errorf("decode %s: %w", KeyCertificate, err)
	}
	if len(data[keyNextCertificate]) > 0 {
		ca, err := decodeCA(data[keyNextCertificate], data[keyNextPrivate])
		if err != nil {
			return nil, fmt.Errorf("decode %s: %w", keyNextCertificate, err)
		}
		a.Next = &Candidate{CA: ca, Published: encoded.Published}
	}
	var retired []*x509.Certificate
	if len(data[keyRetired]) > 0 {
		if retired, err = ParseCertificates(data[keyRetired]); err != nil {
			return nil, fmt.Errorf("decode %s: %w", keyRetired, err)
		}
	}
	if len(retired) != len(encoded.Retired) {
		return nil, fmt.Errorf("decode %s: got %d certificates, want %d", keyRetired, len(retired),
			len(encoded.Retired))
	}
	for i, certificate := range retired {
		a.Retired = append(a.Retired, Retired{certificate, encoded.Retired[i]})
	}
	return a, nil
}

// decodeIssuing decodes the issuing CA. The CA has no key if the key was lost.
func decodeIssuing(data map[string][]byte, encoded state) (CA, error) {
	if encoded.Lost.IsZero() || len(data[KeyPrivate]) > 0 || len(data[keyNextCertificate]) == 0 {
		return decodeCA(data[KeyCertificate], data[KeyPrivate])
	}
	certificates, err := ParseCertificates(data[KeyCertificate])
	if err != nil {
		return CA{}, err
	}
	if !certificates[0].IsCA {
		return CA{}, errNotCA
	}
	return CA{Certificate: certificates[0]}, nil
}

func decodeCA(certificate, key []byte) (CA, error) {
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return CA{}, err
	}
	private, ok := pair.PrivateKey.(*ecdsa.PrivateKey)
	switch {
	case !ok:
		return CA{}, errors.New("the key is not an ECDSA key")
	case !pair.Leaf.IsCA:
		return CA{}, errNotCA
	}
	return CA{Certificate: pair.Leaf, Key: private}, nil
}

// ParseLeaf parses a PEM certificate, which intermediate certificates may follow, and its PEM
// private key. It fails if certificate and key do not belong together. It does not check the
// certificate's validity.
func ParseLeaf(chain, key []byte) (Leaf, error) {
	pair, err := tls.X509KeyPair(chain, key)
	if err != nil {
		return Leaf{}, fmt.Errorf("parse certificate and key: %w", err)
	}
	return Leaf{Certificate: pair.Leaf, Chain: chain, Key: key}, nil
}

// ParseCertificates parses PEM with one or more certificates. Text before and between certificates
// is ignored; any other block is an error.
func ParseCertificates(data []byte) ([]*x509.Certificate, error) {
	var all []*x509.Certificate
	for {
		var block *pem.Block
		if block, data = pem.Decode(data); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" || len(all) == certificatesMax {
			return nil, fmt.Errorf("parse certificates: unexpected %s block", block.Type)
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("parse certificates: %w", err)
		}
		all = append(all, certificate)
	}
	if len(all) == 0 || bytes.Contains(data, []byte("-----BEGIN")) {
		return nil, errors.New("parse certificates: want one or more certificates in PEM")
	}
	return all, nil
}

func encodeCertificate(certificate *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Raw})
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}
