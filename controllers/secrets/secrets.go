// Package secrets reads and writes the Secrets that the operator owns. It reads from the API server
// itself, because a decision based on an outdated cache could replace a CA or a password. It writes
// with compare-and-swap. It never writes a Secret that another object owns.
package secrets

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/controllers/owned"
)

// Store reads and writes Secrets.
type Store struct {
	client.Client
	Live client.Reader // reader of the API server, without a cache
}

// Owned is a Secret of an owner, as it was when it was read. Its data is empty if the Secret did
// not exist.
type Owned struct {
	Data   map[string][]byte
	stored *corev1.Secret // nil if the Secret does not exist
}

// Read reads a Secret of an owner. It returns an owned.ForeignError if the Secret exists and has
// another owner, or no owner. If the Secret belongs to an earlier owner with the same name, Read
// deletes it, so that an owner that was created again does not inherit credentials.
func (s *Store) Read(ctx context.Context, owner client.Object, name string) (Owned, error) {
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: owner.GetNamespace(), Name: name}
	err := s.Live.Get(ctx, key, secret)
	switch {
	case apierrors.IsNotFound(err):
		return Owned{Data: map[string][]byte{}}, nil
	case err != nil:
		return Owned{}, fmt.Errorf("read secret %s: %w", name, err)
	case metav1.IsControlledBy(secret, owner):
		data := maps.Clone(secret.Data)
		if data == nil {
			data = map[string][]byte{}
		}
		return Owned{Data: data, stored: secret}, nil
	case !owned.ByEarlier(s.Client, secret, owner):
		return Owned{}, s.foreign(name, owner)
	}
	if err := s.checkPresent(ctx, owner); err != nil {
		return Owned{}, err
	}
	if err := s.Delete(ctx, secret, client.Preconditions{UID: &secret.UID,
		ResourceVersion: &secret.ResourceVersion}); client.IgnoreNotFound(err) != nil {
		return Owned{}, fmt.Errorf("delete secret %s of an earlier owner: %w", name, err)
	}
	return Owned{Data: map[string][]byte{}}, nil
}

// foreign returns the error for a Secret that was not created for owner.
func (s *Store) foreign(name string, owner client.Object) error {
	kind, err := s.GroupVersionKindFor(owner)
	if err != nil {
		return err
	}
	return &owned.ForeignError{Kind: "Secret", Name: name, OwnerKind: kind.Kind}
}

// checkPresent returns an error unless owner is the current object with its name. If owner comes
// from an outdated cache, it may itself be the earlier object.
func (s *Store) checkPresent(ctx context.Context, owner client.Object) error {
	kind, err := s.GroupVersionKindFor(owner)
	if err != nil {
		return err
	}
	present := &metav1.PartialObjectMetadata{}
	present.SetGroupVersionKind(kind)
	if err := s.Live.Get(ctx, client.ObjectKeyFromObject(owner), present); err != nil {
		return fmt.Errorf("read %s %s: %w", kind.Kind, owner.GetName(), err)
	}
	if present.UID != owner.GetUID() {
		return fmt.Errorf("%s %s was created again", kind.Kind, owner.GetName())
	}
	return nil
}

// Write stores data in a Secret that Read has returned, unless the Secret already has this data. It
// fails with a conflict if the Secret has changed since Read.
func (s *Store) Write(ctx context.Context, owner client.Object, cluster, name string, read Owned,
	data map[string][]byte) error {
	if read.stored != nil {
		if equality.Semantic.DeepEqual(read.stored.Data, data) {
			return nil
		}
		changed := read.stored.DeepCopy()
		changed.Data = data
		if err := s.Update(ctx, changed); err != nil {
			return fmt.Errorf("update secret %s: %w", name, err)
		}
		return nil
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: owner.GetNamespace(),
			Labels: map[string]string{
				v1alpha1.LabelCluster:          cluster,
				"app.kubernetes.io/name":       "heartwood",
				"app.kubernetes.io/instance":   cluster,
				"app.kubernetes.io/managed-by": "heartwood-operator",
			}},
		Data: data,
	}
	if err := controllerutil.SetControllerReference(owner, secret, s.Scheme()); err != nil {
		return fmt.Errorf("set the owner of secret %s: %w", name, err)
	}
	if err := s.Create(ctx, secret); err != nil {
		return fmt.Errorf("create secret %s: %w", name, err)
	}
	return nil
}

// Key reads the value of a key in a Secret that users provide. found is false if the Secret or the
// key does not exist.
func (s *Store) Key(ctx context.Context, namespace string,
	from v1alpha1.SecretKey) (value []byte, found bool, err error) {
	data, err := s.Foreign(ctx, namespace, from.Name)
	value, found = data[from.Key]
	return value, found, err
}

// Foreign reads a Secret that users provide. It returns nil data only if the Secret does not exist.
func (s *Store) Foreign(ctx context.Context, namespace, name string) (map[string][]byte, error) {
	secret := &corev1.Secret{}
	err := s.Live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, secret)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read secret %s: %w", name, err)
	case secret.Data == nil:
		return map[string][]byte{}, nil
	}
	return secret.Data, nil
}

// Remove deletes a Secret that Read has returned, if the Secret exists.
func (s *Store) Remove(ctx context.Context, read Owned) error {
	if read.stored == nil {
		return nil
	}
	if err := s.Delete(ctx, read.stored, client.Preconditions{
		UID: &read.stored.UID}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete secret %s: %w", read.stored.Name, err)
	}
	return nil
}

// Exists reports whether the Secret existed when it was read.
func (o Owned) Exists() bool { return o.stored != nil }
