package certname

import (
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"heartwood.dev/heartwood/test/kit/seed"
)

func der(t testing.TB, sequence pkix.RDNSequence) []byte {
	t.Helper()
	content, err := asn1.Marshal(sequence)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func oid(parts ...int) asn1.ObjectIdentifier { return parts }

func TestNamesAreWrittenAsInJava(t *testing.T) {
	name := pkix.Name{Country: []string{"DE"}, Organization: []string{`a,b+c"d\e<f>;g`},
		CommonName: " alice "}
	got, err := DN(der(t, name.ToRDNSequence()))
	if want := `CN=\ alice\ ,O=a\,b\+c\"d\\e\<f\>\;g,C=DE`; err != nil || got != want {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
	mail := pkix.RDNSequence{{{Type: oid(1, 2, 840, 113549, 1, 9, 1), Value: "a@b"}}}
	got, err = DN(der(t, mail))
	if want := "1.2.840.113549.1.9.1=#1303614062"; err != nil ||
		!strings.HasPrefix(got, "1.2.840.113549.1.9.1=#") || len(got) != len(want) {
		t.Errorf("got %s, %v", got, err)
	}
	if _, err := DN([]byte{0x30, 0x05, 1}); err == nil {
		t.Error("malformed DER was accepted")
	}
}

// TestNamesAgreeWithJava compares the texts of random names with the texts from Java's
// X500Principal.
func TestNamesAgreeWithJava(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped: starts a JVM")
	}
	java, err := exec.LookPath("java")
	if err != nil {
		t.Skip("skipped: java is not installed")
	}
	r := rand.New(rand.NewPCG(seed.New(t), 1))
	var input strings.Builder
	var names [][]byte
	for range 2000 {
		names = append(names, der(t, randomName(r)))
		input.WriteString(hex.EncodeToString(names[len(names)-1]) + "\n")
	}
	cmd := exec.CommandContext(t.Context(), java, filepath.Join("testdata", "Names.java"))
	cmd.Stdin = strings.NewReader(input.String())
	output, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Fields(string(output))
	for i := range names {
		want, err := hex.DecodeString(lines[i])
		if err != nil {
			t.Fatal(err)
		}
		got, err := DN(names[i])
		if err != nil || got != string(want) {
			t.Fatalf("%x: got %q, %v, Java says %q", names[i], got, err, want)
		}
	}
}

func randomName(r *rand.Rand) (sequence pkix.RDNSequence) {
	types := []asn1.ObjectIdentifier{oid(2, 5, 4, 3), oid(2, 5, 4, 10), oid(2, 5, 4, 11),
		oid(2, 5, 4, 6), oid(2, 5, 4, 5), oid(2, 5, 4, 9),
		oid(0, 9, 2342, 19200300, 100, 1, 25), oid(0, 9, 2342, 19200300, 100, 1, 1)}
	letters := []rune(`ab, +"\<>;=#ü` + "\r")
	for range 1 + r.IntN(3) {
		var value strings.Builder
		for range 1 + r.IntN(6) {
			value.WriteRune(letters[r.IntN(len(letters))])
		}
		sequence = append(sequence, pkix.RelativeDistinguishedNameSET{
			{Type: types[r.IntN(len(types))], Value: value.String()}})
	}
	return sequence
}

func TestRulesMapNames(t *testing.T) {
	rules, err := ParseRules([]string{`RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/`,
		`RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L`,
		`RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U`, `RULE:^O=a\/b$/x\/y/`})
	if err != nil {
		t.Fatal(err)
	}
	for dn, want := range map[string]string{
		"CN=kafka-admin,OU=ServiceUsers,O=Unknown,L=Unknown,C=Unknown": "kafka-admin",
		"CN=Duke,OU=JavaSoft,O=Sun,L=U,ST=U,C=U":                       "duke@javasoft",
		"cn=duke,L=U":                                                  "DUKE",
		"O=a/b":                                                        "x/y",
	} {
		if got, err := rules.Apply(dn); err != nil || got != want {
			t.Errorf("%s: got %s, %v, want %s", dn, got, err, want)
		}
	}
	if _, err := rules.Apply("O=none"); !errors.Is(err, ErrNoRule) {
		t.Errorf("no rule: %v", err)
	}
	if none, err := ParseRules(nil); err != nil {
		t.Error(err)
	} else if got, _ := none.Apply("CN=a"); got != "CN=a" {
		t.Errorf("without rules: %s", got)
	}
	for _, invalid := range []string{"RULE:", "RULE:(/x/", "RULE:a/b/X", "x"} {
		if _, err := ParseRules([]string{invalid}); err == nil {
			t.Errorf("%q was accepted", invalid)
		}
	}
}

func TestCommonNameMustBeUnique(t *testing.T) {
	one := pkix.Name{CommonName: "alice", Names: []pkix.AttributeTypeAndValue{
		{Type: oid(2, 5, 4, 3), Value: "alice"}}}
	if got, ok := CommonName(one); !ok || got != "alice" {
		t.Errorf("got %s, %t", got, ok)
	}
	two := one
	two.Names = append(two.Names, pkix.AttributeTypeAndValue{Type: oid(2, 5, 4, 3), Value: "bob"})
	if _, ok := CommonName(two); ok {
		t.Error("two common names were accepted")
	}
}

func FuzzDN(f *testing.F) {
	name := pkix.Name{CommonName: "a"}
	f.Add(der(f, name.ToRDNSequence()))
	f.Fuzz(func(_ *testing.T, content []byte) { _, _ = DN(content) })
}
