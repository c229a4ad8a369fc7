package loguser

import (
	"encoding/json"
	"fmt"
	"time"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/credentials"
)

// keyState is the key in the Secret whose value is the encoded state.
const keyState = "heartwood.json"

// state is the operator's own data in a LogUser's Secret.
type state struct {
	// Rotated is the value of AnnotationRotate for which the credentials were made.
	Rotated   string                   `json:"rotated,omitempty"`
	Verifiers []v1alpha1.ScramVerifier `json:"verifiers,omitempty"`
	// Lost is the time at which the operator detected that the Secret was lost. Kept is true if the
	// previous password remains valid. Both are reset to zero after PreviousPasswordLifetime.
	Lost time.Time `json:"lost,omitzero"`
	Kept bool      `json:"kept,omitempty"`
}

// hasState reports whether a Secret's data contains the state of a LogUser.
func hasState(data map[string][]byte) bool { return len(data[keyState]) > 0 }

// decodeState returns the state in a Secret, or the zero value if there is none. It returns an
// error for a damaged state, because creating new credentials would cut off the user's clients.
func decodeState(data map[string][]byte) (state, error) {
	var s state
	if !hasState(data) {
		return s, nil
	}
	if err := json.Unmarshal(data[keyState], &s); err != nil {
		return s, fmt.Errorf("decode key %s of the LogUser's Secret: %w", keyState, err)
	}
	return s, nil
}

// rotatePassword returns the password and the state that a LogUser must have. given is the password
// from passwordFrom, or "" if the operator chooses the password.
func rotatePassword(present string, before state, given, rotate string,
	now time.Time) (password string, after state, err error) {
	password = present
	if given != "" {
		password = given
	} else if present == "" || rotate != before.Rotated {
		password = credentials.NewPassword()
	}
	after = state{Rotated: rotate}
	verifiers, _ := credentials.Prune(before.Verifiers, now)
	if !credentials.Verify(verifiers, password) {
		made, err := credentials.Verifiers(password, verifiers)
		if err != nil {
			return "", state{}, err
		}
		verifiers = credentials.Rotate(verifiers, made, now)
	}
	after.Verifiers = verifiers
	return password, after, nil
}
