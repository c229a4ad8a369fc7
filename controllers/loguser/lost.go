package loguser

import (
	"context"
	"fmt"
	"time"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/controllers/owned"
)

// before returns the state in the LogUser's Secret. If the Secret was lost, before uses the
// verifiers that brokers still have. The previous password then remains valid as long as after a
// rotation, because a deleted Secret must not cut off running clients.
func (s *scope) before(ctx context.Context, present map[string][]byte) (state, error) {
	if hasState(present) || s.user.Status.SecretName == "" {
		return decodeState(present)
	}
	lost := state{Lost: s.now, Rotated: s.user.Status.Rotated}
	if s.user.Spec.Authentication.Type != v1alpha1.UserScram {
		return lost, nil
	}
	shards := map[string]map[string][]byte{}
	for {
		name := v1alpha1.ScramSecretName(s.cluster.Name, len(shards))
		read, err := s.Read(ctx, s.cluster, name)
		if err != nil && owned.AsForeign(err) == nil {
			return state{}, err
		}
		if err != nil || !read.Exists() {
			break
		}
		shards[name] = read.Data
	}
	if encoded := presentVerifiers(shards, s.user); encoded != nil {
		decoded, err := v1alpha1.DecodeScramVerifiers(encoded)
		if err != nil {
			return state{}, err
		}
		lost.Verifiers, lost.Kept = decoded.Verifiers, true
	}
	return lost, nil
}

// keepLoss keeps the loss of the Secret in the state while clients may still use the previous
// credentials. It also describes the loss.
func (s *scope) keepLoss(before state, after *state) {
	until := before.Lost.Add(v1alpha1.PreviousPasswordLifetime)
	if before.Lost.IsZero() || !s.now.Before(until) {
		return
	}
	after.Lost, after.Kept = before.Lost, before.Kept
	previous := "the previous password is not valid any more"
	switch {
	case s.user.Spec.Authentication.Type == v1alpha1.UserTLS:
		previous = "the previous certificate remains valid until its expiry"
	case s.user.Spec.Authentication.PasswordFrom != nil:
		previous = "the password is that of passwordFrom"
	case before.Kept:
		previous = "the previous password remains valid until " + until.UTC().Format(time.RFC3339)
	}
	s.lost = fmt.Sprintf(" The Secret was lost at %s and made again; %s. Clients must read the Secret "+
		"again.", before.Lost.UTC().Format(time.RFC3339), previous)
	s.reconcileWithin(until.Sub(s.now))
}

// presentVerifiers returns a LogUser's encoded verifiers in the shards, or nil if they do not
// contain any. shards contains the data of the shards by the names of their Secrets. Verifiers with
// another UID belong to an earlier LogUser of the same name and do not count.
func presentVerifiers(shards map[string]map[string][]byte, user *v1alpha1.LogUser) []byte {
	for number := 0; ; number++ {
		shard, ok := shards[v1alpha1.ScramSecretName(user.Spec.Cluster, number)]
		if !ok {
			return nil
		}
		encoded, ok := shard[user.Name]
		if !ok {
			continue
		}
		decoded, err := v1alpha1.DecodeScramVerifiers(encoded)
		if err != nil || decoded.UID != string(user.UID) ||
			decoded.UserName != user.PrincipalName() || len(decoded.Verifiers) == 0 {
			return nil
		}
		return encoded
	}
}
