package local

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/vfs"
)

// user is a LogUser without the fields that the API server sets.
type user struct {
	Name string               `json:"name"`
	Spec v1alpha1.LogUserSpec `json:"spec"`
}

func resources(users []user) []*v1alpha1.LogUser {
	all := make([]*v1alpha1.LogUser, len(users))
	for i := range users {
		all[i] = users[i].resource()
	}
	return all
}

func (u user) resource() *v1alpha1.LogUser {
	return &v1alpha1.LogUser{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "LogUser"},
		ObjectMeta: metav1.ObjectMeta{Name: u.Name},
		Spec:       u.Spec,
	}
}

// credentialsName is the name of the file with the passwords that admin clients have set. It is in
// the same directory as the metadata file.
const credentialsName = "credentials.json"

// credentials is the content of this file.
type credentials struct {
	// UnknownUsers is the key from which the salts of unknown users are derived.
	UnknownUsers []byte `json:"unknownUsers"`
	// Scram contains the verifiers of passwords, by user.
	Scram map[string]*v1alpha1.ScramVerifiers `json:"scram,omitempty"`
}

// users contains the store's state for users. It is guarded by the lock changing.
type users struct {
	scram    map[string]*v1alpha1.ScramVerifiers // verifiers of LogUsers that are in a manifest
	stored   credentials
	onDisk   bool               // true if the credentials file exists
	security *metadata.Security // value in the published image
}

// openUsers reads the credentials file. If it does not exist, openUsers prepares its content with a
// new key.
func (s *Store) openUsers() error {
	file := filepath.Join(filepath.Dir(s.file), credentialsName)
	content, err := s.fs.ReadFile(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		key := make([]byte, 32)
		_, _ = rand.Read(key) // never fails
		s.changing.users.stored.UnknownUsers = key
		return nil
	case err != nil:
		return fmt.Errorf("read credentials: %w", err)
	}
	if err := json.Unmarshal(content, &s.changing.users.stored); err != nil {
		return fmt.Errorf("read credentials %s: %w", file, err)
	}
	s.changing.onDisk = true
	return nil
}

// writeCredentials replaces the credentials file. Only the owner may read the file, because it is
// written as a temporary file with this mode and then renamed.
func (s *Store) writeCredentials(c credentials) error {
	content, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("encode credentials: %w", err)
	}
	file := filepath.Join(filepath.Dir(s.file), credentialsName)
	if _, ok := s.fs.(vfs.OS); ok {
		temporary, err := os.OpenFile(file+vfs.TemporarySuffix, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrNotWritten, err)
		}
		if err := temporary.Close(); err != nil {
			return fmt.Errorf("%w: %w", ErrNotWritten, err)
		}
	}
	if err := vfs.WriteFileAtomic(s.fs, file, content); err != nil {
		return fmt.Errorf("%w: %w", ErrNotWritten, err)
	}
	return nil
}

// Users returns the LogUsers of the last SyncUsers.
func (s *Store) Users() []*v1alpha1.LogUser {
	s.changing.Lock()
	defer s.changing.Unlock()
	return resources(s.changing.document.ManifestUsers)
}

// SyncUsers applies the LogUsers in manifests, and the verifiers of their passwords (the map's keys
// do not matter). They replace those of the previous call. The LogUsers are stored; their verifiers
// are not.
func (s *Store) SyncUsers(manifests []*v1alpha1.LogUser,
	scram map[string]*v1alpha1.ScramVerifiers) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	if !s.changing.onDisk && len(manifests) > 0 {
		// Write the file now. Without it, the next start would choose another key, and the salts of
		// unknown users would change.
		if err := s.writeCredentials(s.changing.stored); err != nil {
			return err
		}
		s.changing.onDisk = true
	}
	before := s.changing.users.scram
	s.changing.users.scram = scram
	err := s.changeLocked(electionOptions{}, func(d *document) error {
		d.ManifestUsers = nil
		for _, m := range manifests {
			d.ManifestUsers = append(d.ManifestUsers, user{Name: m.Name, Spec: m.Spec})
		}
		return nil
	})
	if err != nil {
		s.changing.users.scram = before
	}
	return err
}

// securityOf returns the Security for a document's users. It returns the previous value if nothing
// has changed, so that the ACLs are not compiled again.
func (s *Store) securityOf(d *document) *metadata.Security {
	u := &s.changing.users
	manifests := resources(d.ManifestUsers)
	all := slices.Clone(manifests)
	for _, stored := range d.Users {
		if !slices.ContainsFunc(manifests, func(m *v1alpha1.LogUser) bool {
			return m.PrincipalName() == stored.resource().PrincipalName()
		}) {
			all = append(all, stored.resource())
		}
	}
	scram := maps.Clone(u.stored.Scram)
	if scram == nil {
		scram = map[string]*v1alpha1.ScramVerifiers{}
	}
	for _, v := range u.scram { // a LogUser of type Scram has no other passwords
		scram[v.UserName] = v
	}
	next := metadata.ResolveSecurity(d.resource(), all, scram, u.stored.UnknownUsers)
	if !reflect.DeepEqual(next, u.security) {
		u.security = next
	}
	return u.security
}

// ChangeUser implements metadata.UserAdmin. It rejects a change of a LogUser that is in a manifest
// (ADR 0160).
func (s *Store) ChangeUser(ctx context.Context, change metadata.UserChange) error {
	return s.request(ctx, func() error {
		return s.change(func(d *document) error {
			if m := d.manifestUser(change.Name); m != nil {
				return fmt.Errorf("%w: user %q has a manifest, which would revert the change: "+
					"change LogUser/%s in the manifest", metadata.ErrPolicy, change.Name, m.Name)
			}
			d.changeUser(change)
			return nil
		})
	})
}

// manifestUser returns a principal's LogUser if it is in a manifest, or nil.
func (d *document) manifestUser(name string) *v1alpha1.LogUser {
	for _, m := range resources(d.ManifestUsers) {
		if m.PrincipalName() == name {
			return m
		}
	}
	return nil
}

// changeUser changes a LogUser that is not in a manifest. If the LogUser then has neither ACLs nor
// quotas, changeUser removes it, because it serves no other purpose.
func (d *document) changeUser(change metadata.UserChange) {
	index := slices.IndexFunc(d.Users, func(u user) bool {
		return u.resource().PrincipalName() == change.Name
	})
	before := metadata.NewUser(change.Name, d.clusterName())
	if index >= 0 {
		before = d.Users[index].resource()
	}
	altered := metadata.AlteredUser(before, change)
	d.Users = slices.Clone(d.Users)
	empty := len(altered.Spec.ACLs) == 0 && altered.Spec.Quotas == nil
	switch {
	case empty && index >= 0:
		d.Users = slices.Delete(d.Users, index, index+1)
	case empty:
	case index >= 0:
		d.Users[index].Spec = altered.Spec
	default:
		d.Users = append(d.Users, user{Name: altered.Name, Spec: altered.Spec})
	}
}

func (d *document) clusterName() string {
	if d.Cluster == nil {
		return clusterNameDefault
	}
	return d.Cluster.Name
}

// AlterScram implements metadata.UserAdmin.
func (s *Store) AlterScram(ctx context.Context, change metadata.ScramChange) error {
	return s.request(ctx, func() error {
		s.changing.Lock()
		defer s.changing.Unlock()
		if m := s.changing.document.manifestUser(change.Name); m != nil &&
			m.Spec.Authentication.Type == v1alpha1.UserScram {
			return fmt.Errorf("%w: the password of user %q comes from LogUser/%s: change it there",
				metadata.ErrPolicy, change.Name, m.Name)
		}
		next, err := s.changing.users.stored.altered(change)
		if err != nil {
			return err
		}
		if err := s.writeCredentials(next); err != nil {
			return err
		}
		s.changing.users.stored, s.changing.onDisk = next, true
		return s.changeLocked(electionOptions{}, func(*document) error { return nil })
	})
}

// altered returns the credentials after a change. It does not modify the maps and lists in its
// receiver.
func (c credentials) altered(change metadata.ScramChange) (credentials, error) {
	verifiers, err := metadata.AlteredScram(c.Scram[change.Name], change)
	if err != nil {
		return c, err
	}
	c.Scram = maps.Clone(c.Scram)
	if c.Scram == nil {
		c.Scram = map[string]*v1alpha1.ScramVerifiers{}
	}
	c.Scram[change.Name] = verifiers
	if len(verifiers.Verifiers) == 0 {
		delete(c.Scram, change.Name)
	}
	return c, nil
}
