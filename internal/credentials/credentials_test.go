package credentials

import (
	"bytes"
	"errors"
	"maps"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/xdg-go/scram"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/sasl"
	"heartwood.dev/heartwood/test/kit/seed"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func verifiersOf(t *testing.T, password string) []v1alpha1.ScramVerifier {
	t.Helper()
	verifiers, err := Verifiers(password, nil)
	if err != nil {
		t.Fatal(err)
	}
	return verifiers
}

func TestVerifiersVerifyTheirPasswordOnly(t *testing.T) {
	verifiers := verifiersOf(t, "secret")
	if len(verifiers) != 2 || !Verify(verifiers, "secret") {
		t.Errorf("got %d verifiers, which do not verify the password", len(verifiers))
	}
	if Verify(verifiers, "secret2") || Verify(verifiers[:1], "secret") || Verify(nil, "secret") {
		t.Error("another password or too few verifiers were accepted")
	}
	if again := verifiersOf(t, "secret"); bytes.Equal(again[0].Salt, verifiers[0].Salt) {
		t.Error("two salts are equal")
	}
}

func TestInvalidPasswordsAreRejectedWithoutNamingThem(t *testing.T) {
	for _, password := range []string{"", "hunter2\n", "hunter2\x00", "hunter2\xff",
		strings.Repeat("hunter2", 1000)} {
		_, err := Verifiers(password, nil)
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: got error %v", password[:min(len(password), 10)], err)
		}
	}
}

func TestRotatedPasswordCountsForAnHour(t *testing.T) {
	first, second, third := verifiersOf(t, "1"), verifiersOf(t, "2"), verifiersOf(t, "3")
	verifiers := Rotate(first, second, start)
	verifiers = Rotate(verifiers, third, start.Add(time.Minute))
	if len(verifiers) != 4 || !Verify(verifiers, "3") {
		t.Fatalf("got %d verifiers", len(verifiers))
	}
	kept, next := Prune(verifiers, start.Add(time.Hour))
	if want := start.Add(time.Hour + time.Minute); len(kept) != 4 || !next.Equal(want) {
		t.Errorf("got %d verifiers until %s, want 4 until %s", len(kept), next, want)
	}
	if kept, next = Prune(verifiers, next); len(kept) != 2 || !next.IsZero() ||
		!Verify(kept, "3") {
		t.Errorf("got %d verifiers until %s", len(kept), next)
	}
}

// TestRotationKeepsSalts logs in with the new and the previous password of a user after a rotation.
// A broker sends one salt before it knows which password the client uses, so a new salt would make
// the previous password useless.
func TestRotationKeepsSalts(t *testing.T) {
	first := verifiersOf(t, "1")
	second, err := Verifiers("2", first)
	if err != nil {
		t.Fatal(err)
	}
	rotated := Rotate(first, second, start)
	for _, mechanism := range mechanisms {
		for _, password := range []string{"1", "2"} {
			if err := login(mechanism, password, rotated); err != nil {
				t.Errorf("%s with password %s: %v", mechanism, password, err)
			}
		}
		if err := login(mechanism, "3", rotated); err == nil {
			t.Errorf("%s accepted a wrong password", mechanism)
		}
	}
}

// login runs the SCRAM exchange between a client and a server that has the verifiers of user "u".
func login(mechanism, password string, verifiers []v1alpha1.ScramVerifier) error {
	hash := map[string]scram.HashGeneratorFcn{v1alpha1.ScramSha256: scram.SHA256,
		v1alpha1.ScramSha512: scram.SHA512}[mechanism]
	client, err := hash.NewClientUnprepped("u", password, "")
	if err != nil {
		return err
	}
	server, err := sasl.New(mechanism, &sasl.Options{Verifiers: func(string,
		string) []sasl.Verifier {
		var all []sasl.Verifier
		for _, v := range verifiers {
			if v.Mechanism == mechanism {
				all = append(all, sasl.Verifier{Iterations: v.Iterations, Salt: v.Salt,
					StoredKey: v.StoredKey, ServerKey: v.ServerKey})
			}
		}
		return all
	}})
	if err != nil {
		return err
	}
	conversation, challenge := client.NewConversation(), ""
	for !conversation.Done() {
		message, err := conversation.Step(challenge)
		if err != nil {
			return err
		}
		if message == "" {
			break
		}
		reply, _, err := server.Step(start, []byte(message))
		if err != nil {
			return err
		}
		challenge = string(reply)
	}
	if !conversation.Valid() {
		return errors.New("the server did not prove that it knows the password")
	}
	return nil
}

func TestPasswordsDiffer(t *testing.T) {
	if a, b := NewPassword(), NewPassword(); a == b || len(a) < 26 {
		t.Errorf("got %s and %s", a, b)
	}
}

func TestFilesOfAScramUser(t *testing.T) {
	files := Files(User{Name: `a"b\c`, Password: "pa ss"},
		Endpoint{Bootstrap: "h:9093", TLS: true, CA: []byte("-----BEGIN\nX\n-----END\n"),
			Mechanism: "SCRAM-SHA-512"}, "/etc/heartwood")
	want := map[string]string{
		"username": `a"b\c`, "password": "pa ss", "bootstrap.servers": "h:9093",
		"ca.crt": "-----BEGIN\nX\n-----END\n",
		"sasl.jaas.config": `org.apache.kafka.common.security.scram.ScramLoginModule required ` +
			`username="a\"b\\c" password="pa ss";`,
		"client.properties": "bootstrap.servers=h:9093\nsecurity.protocol=SASL_SSL\n" +
			"sasl.mechanism=SCRAM-SHA-512\nsasl.jaas.config=" +
			`org.apache.kafka.common.security.scram.ScramLoginModule required ` +
			`username="a\\"b\\\\c" password="pa ss";` + "\nssl.truststore.type=PEM\n" +
			`ssl.truststore.certificates=-----BEGIN\nX\n-----END\n` + "\n",
		"librdkafka.conf": "bootstrap.servers=h:9093\nsecurity.protocol=sasl_ssl\n" +
			"sasl.mechanisms=SCRAM-SHA-512\nsasl.username=a\"b\\c\nsasl.password=pa ss\n" +
			"ssl.ca.location=/etc/heartwood/ca.crt\n",
	}
	got := map[string]string{}
	for key, value := range files {
		got[key] = string(value)
	}
	if !maps.Equal(got, want) {
		for key := range want {
			if got[key] != want[key] {
				t.Errorf("%s:\n got %s\nwant %s", key, got[key], want[key])
			}
		}
		t.Errorf("got %d files, want %d", len(got), len(want))
	}
}

func TestFilesOfACertificateUser(t *testing.T) {
	files := Files(User{Name: "a", Certificate: []byte("C\n"), Key: []byte("K\n")},
		Endpoint{Bootstrap: "h:9093", TLS: true}, "/x")
	if want := "bootstrap.servers=h:9093\nsecurity.protocol=SSL\nssl.keystore.type=PEM\n" +
		`ssl.keystore.certificate.chain=C\n` + "\n" + `ssl.keystore.key=K\n` + "\n"; string(
		files["client.properties"]) != want {
		t.Errorf("got %s", files["client.properties"])
	}
	if want := "bootstrap.servers=h:9093\nsecurity.protocol=ssl\n" +
		"ssl.certificate.location=/x/user.crt\nssl.key.location=/x/user.key\n"; string(
		files["librdkafka.conf"]) != want {
		t.Errorf("got %s", files["librdkafka.conf"])
	}
	if _, found := files["password"]; found {
		t.Error("there is a password")
	}
}

func TestFilesWithoutEndpointHaveNoConfiguration(t *testing.T) {
	files := Files(User{Name: "a", Password: "b"}, Endpoint{}, "/x")
	for _, key := range []string{"client.properties", "librdkafka.conf", "bootstrap.servers"} {
		if _, found := files[key]; found {
			t.Errorf("there is a %s", key)
		}
	}
}

func TestShardsModel(t *testing.T) {
	for s := range seed.Sequence(t, 20) {
		random := rand.New(rand.NewPCG(s, 0))
		present := map[string]int{}
		for range 10 {
			var users []string
			for i := range 3000 {
				if random.IntN(2) == 0 {
					users = append(users, strconv.Itoa(i))
				}
			}
			assigned := Shards(present, users)
			sizes := make([]int, ShardCount(assigned))
			for _, user := range users {
				shard, ok := assigned[user]
				if before, was := present[user]; !ok || was && before != shard {
					t.Fatalf("user %s moved from %d to %d (%t)", user, before, shard, ok)
				}
				sizes[shard]++
			}
			for shard, size := range sizes {
				if size > ShardUsers {
					t.Fatalf("shard %d has %d users", shard, size)
				}
			}
			if len(assigned) != len(users) || len(sizes) > 4 {
				t.Fatalf("%d of %d users in %d shards", len(assigned), len(users), len(sizes))
			}
			present = assigned
		}
	}
	if ShardCount(nil) != 1 {
		t.Error("a cluster without users has no shard")
	}
}

// TestScramUserFitsIntoItsShare checks that ShardUsers users with four verifiers each fit into a
// Secret.
func TestScramUserFitsIntoItsShare(t *testing.T) {
	verifiers := v1alpha1.ScramVerifiers{UserName: strings.Repeat("u", 63),
		Verifiers: Rotate(verifiersOf(t, "1"), verifiersOf(t, "2"), start)}
	encoded, err := verifiers.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if size := (len(encoded) + 200) * ShardUsers; size > 1<<20 {
		t.Errorf("a shard has %d bytes", size)
	}
}
