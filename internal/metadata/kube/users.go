package kube

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata"
)

// ChangeUser implements metadata.UserAdmin. It patches the principal's LogUser, even if the LogUser
// was created from a manifest and not through Kafka.
func (s *Store) ChangeUser(ctx context.Context, change metadata.UserChange) error {
	for attempt := 1; ; attempt++ {
		err := s.tryChangeUser(ctx, change)
		conflict := apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err)
		if err == nil || !conflict || attempt == patchAttempts {
			return userError(change.Name, err)
		}
	}
}

func (s *Store) tryChangeUser(ctx context.Context, change metadata.UserChange) error {
	user, err := s.findUser(ctx, change.Name)
	if err != nil {
		return err
	}
	if user == nil {
		if !change.Grants() {
			return nil
		}
		created := metadata.NewUser(change.Name, s.opts.Cluster)
		created.Namespace = s.opts.Namespace
		created = metadata.AlteredUser(created, change)
		err := s.client.Create(ctx, created)
		existing := &v1alpha1.LogUser{}
		if apierrors.IsAlreadyExists(err) &&
			s.takenByOther(ctx, created, existing, &existing.Spec.Cluster) {
			created.Name = metadata.ResourceNameIn(s.opts.Cluster, change.Name)
			created.Spec.UserName = change.Name
			err = s.client.Create(ctx, created)
		}
		return err
	}
	return s.client.Patch(ctx, metadata.AlteredUser(user, change),
		client.MergeFromWithOptions(user, client.MergeFromWithOptimisticLock{}))
}

// findUser reads a principal's LogUser from the API server, or returns nil.
func (s *Store) findUser(ctx context.Context, name string) (*v1alpha1.LogUser, error) {
	list := &v1alpha1.LogUserList{}
	if err := s.client.List(ctx, list, client.InNamespace(s.opts.Namespace)); err != nil {
		return nil, err
	}
	var found []*v1alpha1.LogUser
	for i := range list.Items {
		u := &list.Items[i]
		if u.Spec.Cluster == s.opts.Cluster && u.PrincipalName() == name &&
			u.DeletionTimestamp.IsZero() {
			found = append(found, u)
		}
	}
	if len(found) == 0 {
		return nil, nil
	}
	return metadata.OldestUsers(found)[0], nil
}

// userError converts a write request's error.
func userError(name string, err error) error {
	switch {
	case err == nil:
		return nil
	case apierrors.IsInvalid(err):
		return fmt.Errorf("%w: %w", metadata.ErrInvalidSettings, err)
	}
	return fmt.Errorf("change user %q: %w", name, writeError(err))
}

// AlterScram implements metadata.UserAdmin. It patches one key of the Secret
// v1alpha1.ScramAdminSecretName. The operator creates this Secret, because a broker must not be
// able to create Secrets.
func (s *Store) AlterScram(ctx context.Context, change metadata.ScramChange) error {
	user, err := s.findUser(ctx, change.Name)
	if err != nil {
		return userError(change.Name, err)
	}
	if user != nil && user.Spec.Authentication.Type == v1alpha1.UserScram {
		return fmt.Errorf("%w: the operator owns the password of user %q: change LogUser/%s",
			metadata.ErrPolicy, change.Name, user.Name)
	}
	for attempt := 1; ; attempt++ {
		err := s.tryAlterScram(ctx, change)
		if err == nil || !apierrors.IsConflict(err) || attempt == patchAttempts {
			return err
		}
	}
}

func (s *Store) tryAlterScram(ctx context.Context, change metadata.ScramChange) error {
	secret, key := &corev1.Secret{}, v1alpha1.ScramAdminKey(change.Name)
	name := v1alpha1.ScramAdminSecretName(s.opts.Cluster)
	if err := s.client.Get(ctx, client.ObjectKey{Namespace: s.opts.Namespace, Name: name},
		secret); err != nil {
		if apierrors.IsNotFound(err) {
			return fmt.Errorf("%w: Secret %s does not exist yet", metadata.ErrUnavailable, name)
		}
		return userError(change.Name, err)
	}
	var present *v1alpha1.ScramVerifiers
	if content, ok := secret.Data[key]; ok {
		var err error
		if present, err = v1alpha1.DecodeScramVerifiers(content); err != nil {
			return err
		}
	}
	verifiers, err := metadata.AlteredScram(present, change)
	if err != nil {
		return err
	}
	altered := secret.DeepCopy()
	if altered.Data == nil {
		altered.Data = map[string][]byte{}
	}
	if delete(altered.Data, key); len(verifiers.Verifiers) > 0 {
		if altered.Data[key], err = verifiers.Encode(); err != nil {
			return err
		}
	}
	err = s.client.Patch(ctx, altered,
		client.MergeFromWithOptions(secret, client.MergeFromWithOptimisticLock{}))
	if apierrors.IsConflict(err) {
		return err
	}
	return userError(change.Name, err)
}
