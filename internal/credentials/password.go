package credentials

import (
	"crypto/fips140"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/sasl"
)

// passwordBytesMax is the maximum size of a password that a user provides.
const passwordBytesMax = 1024

// fipsPasswordBytesMin is the minimum size of a password for PBKDF2 in FIPS 140-3 mode: 112 bits.
const fipsPasswordBytesMin = 14

// mechanisms contains the mechanisms for which every password has a verifier.
var mechanisms = []string{v1alpha1.ScramSha256, v1alpha1.ScramSha512}

// NewPassword returns a random password with more than 128 bits of entropy. It consists of letters
// and digits, so that it needs no escaping in any configuration file.
func NewPassword() string { return rand.Text() }

// Verifiers returns a password's verifiers, one for each mechanism. Parameter previous contains the
// verifiers of the user's previous password. Verifiers keeps their salts and iterations, because a
// broker sends one salt before the client proves which of the two passwords it has (ADR 0232).
// Other salts are random. It fails if the password is empty, too long or not printable.
func Verifiers(password string, previous []v1alpha1.ScramVerifier) ([]v1alpha1.ScramVerifier,
	error) {
	if err := checkPassword(password); err != nil {
		return nil, err
	}
	var all []v1alpha1.ScramVerifier
	for _, mechanism := range mechanisms {
		salt, iterations := saltOf(mechanism, previous)
		verifier, err := verifier(mechanism, password, salt, iterations)
		if err != nil {
			return nil, err
		}
		all = append(all, verifier)
	}
	return all, nil
}

// saltOf returns the salt and the iterations for a mechanism: those in verifiers, or else new ones.
func saltOf(mechanism string, verifiers []v1alpha1.ScramVerifier) (salt []byte, iterations int) {
	for i := range verifiers {
		if v := &verifiers[i]; v.Mechanism == mechanism {
			return v.Salt, v.Iterations
		}
	}
	salt = make([]byte, sasl.SaltBytes)
	_, _ = rand.Read(salt) // never fails
	return salt, sasl.IterationsDefault
}

func verifier(mechanism, password string, salt []byte,
	iterations int) (v1alpha1.ScramVerifier, error) {
	derived, err := sasl.NewVerifier(mechanism, password, salt, iterations)
	if err != nil {
		// Omit the library's error, because it might contain the password.
		return v1alpha1.ScramVerifier{}, errors.New("derive the SCRAM verifier of a password")
	}
	return v1alpha1.ScramVerifier{Mechanism: mechanism, Iterations: derived.Iterations,
		Salt: derived.Salt, StoredKey: derived.StoredKey, ServerKey: derived.ServerKey}, nil
}

// checkPassword checks a user's password. The error does not contain the password. It rejects a
// line break at the end, which is a frequent mistake when a Secret is created from a file, and
// which clients would not send.
func checkPassword(password string) error {
	switch {
	case password == "":
		return errors.New("the password is empty")
	case len(password) > passwordBytesMax:
		return fmt.Errorf("the password has more than %d bytes", passwordBytesMax)
	case fips140.Enforced() && len(password) < fipsPasswordBytesMin:
		return fmt.Errorf("the password has fewer than %d bytes, which FIPS 140-3 mode requires "+
			"(GODEBUG=fips140=only)", fipsPasswordBytesMin)
	case !utf8.ValidString(password):
		return errors.New("the password is not valid UTF-8")
	}
	for _, r := range password {
		if r < ' ' || r == 0x7f {
			return errors.New("the password contains a control character, such as a line break")
		}
	}
	return nil
}

// Verify reports whether the verifiers without an end time match the password.
func Verify(verifiers []v1alpha1.ScramVerifier, password string) bool {
	verified := 0
	for i := range verifiers {
		stored := &verifiers[i]
		if stored.NotAfter != nil {
			continue
		}
		derived, err := verifier(stored.Mechanism, password, stored.Salt, stored.Iterations)
		if err != nil || !slices.Equal(derived.StoredKey, stored.StoredKey) {
			return false
		}
		verified++
	}
	return verified == len(mechanisms)
}

// Rotate returns the new password's verifiers, followed by the previous password's verifiers, which
// expire after PreviousPasswordLifetime. It removes verifiers that already had an end time, because
// brokers accept only one previous password.
func Rotate(previous, present []v1alpha1.ScramVerifier, now time.Time) []v1alpha1.ScramVerifier {
	all := slices.Clone(present)
	end := metav1.NewTime(now.Add(v1alpha1.PreviousPasswordLifetime).Truncate(time.Second))
	for _, old := range previous {
		if old.NotAfter == nil {
			old.NotAfter = &end
			all = append(all, old)
		}
	}
	return all
}

// Prune returns the verifiers that have not expired, and the time at which the next one expires, or
// zero if none will.
func Prune(verifiers []v1alpha1.ScramVerifier,
	now time.Time) (kept []v1alpha1.ScramVerifier, next time.Time) {
	for _, v := range verifiers {
		if v.NotAfter != nil && !now.Before(v.NotAfter.Time) {
			continue
		}
		kept = append(kept, v)
		if v.NotAfter != nil && (next.IsZero() || v.NotAfter.Time.Before(next)) {
			next = v.NotAfter.Time
		}
	}
	return kept, next
}
