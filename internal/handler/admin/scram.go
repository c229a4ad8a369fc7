package admin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/handler/api"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/sasl"
	"heartwood.dev/heartwood/internal/wire"
)

// DescribeUserScramCredentials (key 50) and AlterUserScramCredentials (51), version 0 (KIP-554). An
// admin client sends a new password only in salted form. DescribeUserScramCredentials returns only
// the mechanisms and the iterations.

// The shapes describe the fields of the requests (api.Shape).
var (
	DescribeSCRAMShape = api.Shape{api.Array(api.Text())}
	AlterSCRAMShape    = api.Shape{
		api.Array(api.Text(), api.Fixed(1)),
		api.Array(api.Text(), api.Fixed(5), api.Blob(), api.Blob()),
	}
)

// Values and errors for SCRAM credentials.
var (
	mechanismNames         = map[int8]string{1: sasl.ScramSHA256, 2: sasl.ScramSHA512}
	mechanismOfDescription = []int8{1, 2}
)

// unacceptableError is ErrUnacceptable with Kafka's error text.
type unacceptableError struct{ text string }

func (e *unacceptableError) Error() string { return e.text }

func (e *unacceptableError) Unwrap() error { return api.ErrUnacceptable }

// saltedBytesMax is the maximum size of salts and salted passwords from admin clients.
const saltedBytesMax = 1024

// DescribeSCRAM handles a DescribeUserScramCredentials request.
func (h *Handler) DescribeSCRAM(_ context.Context, raw *wire.Request,
	req *kmsg.DescribeUserSCRAMCredentialsRequest) wire.Reply {
	response, result := kmsg.NewPtrDescribeUserSCRAMCredentialsResponse(), h.Outcome()
	response.Version = req.Version
	err := h.Authorize(raw, api.DescribeCluster, api.ClusterName)
	response.ErrorCode, response.ErrorMessage = result.Code(err), api.Message(err)
	if err != nil {
		return api.Reply(response, result)
	}
	security := h.Image().Security
	duplicates := repeated(req.Users,
		func(u *kmsg.DescribeUserSCRAMCredentialsRequestUser) string { return u.Name })
	for _, name := range describedUsers(security, req) {
		described := kmsg.NewDescribeUserSCRAMCredentialsResponseResult()
		described.User = name
		for _, number := range mechanismOfDescription {
			for _, v := range security.Verifiers(mechanismNames[number], name)[:min(1,
				len(security.Verifiers(mechanismNames[number], name)))] {
				info := kmsg.NewDescribeUserSCRAMCredentialsResponseResultCredentialInfo()
				info.Mechanism, info.Iterations = number, int32(v.Iterations)
				described.CredentialInfos = append(described.CredentialInfos, info)
			}
		}
		var err error
		switch {
		case duplicates[name]:
			err, described.CredentialInfos = api.ErrDuplicateUser, nil
		case len(described.CredentialInfos) == 0:
			err = api.ErrNotDescribed
		}
		described.ErrorCode, described.ErrorMessage = result.Code(err), api.Message(err)
		response.Results = append(response.Results, described)
	}
	return api.Reply(response, result)
}

// describedUsers returns the requested users, each once. If the request has no list, it returns all
// users with a password.
func describedUsers(security *metadata.Security,
	req *kmsg.DescribeUserSCRAMCredentialsRequest) (names []string) {
	seen := map[string]bool{}
	if len(req.Users) == 0 && security != nil {
		for _, verifiers := range security.Scram {
			for name := range verifiers {
				seen[name] = true
			}
		}
		return slices.Sorted(maps.Keys(seen))
	}
	for _, u := range req.Users {
		if !seen[u.Name] {
			names = append(names, u.Name)
		}
		seen[u.Name] = true
	}
	return names
}

// AlterSCRAM handles an AlterUserScramCredentials request.
func (h *Handler) AlterSCRAM(ctx context.Context, raw *wire.Request,
	req *kmsg.AlterUserSCRAMCredentialsRequest) wire.Reply {
	response, result := kmsg.NewPtrAlterUserSCRAMCredentialsResponse(), h.Outcome()
	response.Version = req.Version
	err := h.Authorize(raw, api.AlterCluster, api.ClusterName)
	if err == nil && h.Image().Security == nil {
		err = api.ErrNoUsers
	}
	if err == nil {
		err = api.Writable(h.Image())
	}
	names, changes := scramChanges(req)
	for _, name := range names {
		fault := err
		if fault == nil {
			fault = h.changeScram(ctx, raw, changes[name])
		}
		altered := kmsg.NewAlterUserSCRAMCredentialsResponseResult()
		altered.User, altered.ErrorCode, altered.ErrorMessage = name, result.Code(fault),
			api.Message(fault)
		response.Results = append(response.Results, altered)
	}
	return api.Reply(response, result)
}

// scramChange is a requested change, or the error that makes it invalid.
type scramChange struct {
	metadata.ScramChange
	fault error
}

// scramChanges returns the users in the order of the request, and their changes. As in Kafka, a
// request may not change the same mechanism of a user twice.
func scramChanges(req *kmsg.AlterUserSCRAMCredentialsRequest) (names []string,
	byName map[string][]scramChange) {
	byName = map[string][]scramChange{}
	add := func(c scramChange) {
		if _, known := byName[c.Name]; !known {
			names = append(names, c.Name)
		}
		for i := range byName[c.Name] {
			if byName[c.Name][i].Mechanism == c.Mechanism {
				c.fault = api.ErrDuplicateUser
			}
		}
		byName[c.Name] = append(byName[c.Name], c)
	}
	for i := range req.Deletions {
		d := &req.Deletions[i]
		c := scramChange{ScramChange: metadata.ScramChange{Name: d.Name,
			Mechanism: mechanismNames[d.Mechanism]}}
		if c.fault = checkScramName(d.Name); c.Mechanism == "" {
			c.fault = api.ErrUnsupportedSASL
		}
		add(c)
	}
	for i := range req.Upsertions {
		add(upsertion(&req.Upsertions[i]))
	}
	return names, byName
}

func upsertion(u *kmsg.AlterUserSCRAMCredentialsRequestUpsertion) scramChange {
	c := scramChange{ScramChange: metadata.ScramChange{Name: u.Name,
		Mechanism: mechanismNames[u.Mechanism]}}
	switch {
	case c.Mechanism == "":
		c.fault = api.ErrUnsupportedSASL
	case u.Iterations < sasl.IterationsMin:
		c.fault = &unacceptableError{"Too few iterations"}
	case u.Iterations > sasl.IterationsMax:
		c.fault = &unacceptableError{"Too many iterations"}
	case len(u.Salt) == 0 || len(u.Salt) > saltedBytesMax:
		c.fault = fmt.Errorf("%w: the salt has %d bytes", api.ErrUnacceptable, len(u.Salt))
	case len(u.SaltedPassword) != sasl.HashBytes(c.Mechanism):
		c.fault = fmt.Errorf("%w: the salted password has %d bytes, want %d", api.ErrUnacceptable,
			len(u.SaltedPassword), sasl.HashBytes(c.Mechanism))
	default:
		c.fault = checkScramName(u.Name)
	}
	if c.fault == nil {
		v := sasl.FromSaltedPassword(c.Mechanism, u.SaltedPassword, slices.Clone(u.Salt),
			int(u.Iterations))
		c.Verifier = &v1alpha1.ScramVerifier{Mechanism: c.Mechanism, Iterations: v.Iterations,
			Salt: v.Salt, StoredKey: v.StoredKey, ServerKey: v.ServerKey}
	}
	return c
}

func checkScramName(name string) error {
	if name == "" || len(name) > saltedBytesMax {
		return fmt.Errorf("%w: the user name has %d bytes", api.ErrUnacceptable, len(name))
	}
	return nil
}

// changeScram applies the changes for one user, and waits until this broker's metadata image
// contains them.
func (h *Handler) changeScram(ctx context.Context, raw *wire.Request, changes []scramChange) error {
	for i := range changes {
		if changes[i].fault != nil {
			return changes[i].fault
		}
	}
	for i := range changes {
		c := &changes[i].ScramChange
		err := h.Users.AlterScram(ctx, *c)
		if errors.Is(err, metadata.ErrUnknownUser) {
			return api.ErrUnknownCredential
		}
		if err != nil {
			return err
		}
		h.AuditWrite(raw, "user", c.Name, "passwordOf", c.Mechanism, "deleted", c.Verifier == nil)
		h.awaitImage(ctx, func(img *metadata.Image) bool {
			return hasVerifier(img.Security.Verifiers(c.Mechanism, c.Name), c.Verifier)
		})
	}
	return nil
}

// hasVerifier reports whether all contains v. If v is nil, it reports whether all is empty.
func hasVerifier(all []sasl.Verifier, v *v1alpha1.ScramVerifier) bool {
	if v == nil {
		return len(all) == 0
	}
	return slices.ContainsFunc(all, func(have sasl.Verifier) bool {
		return slices.Equal(have.StoredKey, v.StoredKey)
	})
}
