package kube

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// secretWatches watches the Secrets with SCRAM verifiers, each by its name, because the brokers'
// Role permits reading only Secrets that it names. The shards are numbered without gaps. Once the
// operator has applied the Role, it names one more shard than exist. So there is a watch for each
// existing shard, and one for the next shard.
//
// Only the goroutine of follow uses secretWatches. Each watch has a goroutine, which ends with the
// ctx passed to ensure.
type secretWatches struct {
	config    *rest.Config
	http      *http.Client
	mapper    meta.RESTMapper
	scheme    *runtime.Scheme
	namespace string
	changed   func() // called when a Secret has changed

	watches map[string]cache.Cache // watches by name of the Secret
	running sync.WaitGroup
}

// addSecrets adds the Secrets with verifiers, and the key for unknown users, which are needed to
// authenticate clients. unread is the result of secretWatches.read.
func (s *Store) addSecrets(ctx context.Context, all *resources) (unread string, err error) {
	if all.cluster == nil {
		return "", nil
	}
	if s.opts.UnknownUsers != nil {
		all.unknownUsers = s.opts.UnknownUsers()
	}
	all.secrets, unread, err = s.secrets.read(ctx, all.cluster)
	return unread, err
}

// read returns the Secrets that exist: the shards, and the Secret for admin clients. It starts
// missing watches. unread is the name of a Secret whose watch has not yet shown whether the Secret
// exists; "" if there is none. Such a Secret is omitted, so its users cannot log in yet.
//
// A Secret stays unread while the Role does not name it. The broker follows the LogCluster, but the
// operator does not update the Role while the LogCluster is paused or cannot be applied. Secrets
// that have already been read must not wait for it: a user that was removed must lose access.
//
// A Secret that the LogCluster does not own counts as missing. The Role names the next shard before
// it exists; otherwise anyone who may create Secrets could add users.
func (w *secretWatches) read(ctx context.Context, cluster *v1alpha1.LogCluster) (
	secrets []*corev1.Secret, unread string, err error) {
	if !cluster.Spec.Listeners.Authenticate() {
		return nil, "", nil
	}
	name := v1alpha1.ScramAdminSecretName(cluster.Name)
	secret, synced, err := w.get(ctx, cluster, name)
	if err != nil {
		return nil, "", err
	}
	if !synced {
		unread = name
	}
	if secret != nil {
		secrets = append(secrets, secret)
	}
	for shard := 0; ; shard++ {
		name := v1alpha1.ScramSecretName(cluster.Name, shard)
		secret, synced, err := w.get(ctx, cluster, name)
		switch {
		case err != nil:
			return nil, "", err
		case !synced:
			return secrets, name, nil
		case secret == nil:
			return secrets, unread, nil
		}
		secrets = append(secrets, secret)
	}
}

// unreadTolerance is how long a Secret may be unread before this is logged. The operator adds a new
// shard to the brokers' Role some time after the shard's creation.
const unreadTolerance = 10 * time.Second

// unreadSecret limits how often Secrets that cannot be read are logged.
type unreadSecret struct {
	since  time.Time // time since which a Secret has been unread; zero if all Secrets have been read
	logged bool
}

// note processes the result of secretWatches.read. logs is true if the caller must log it.
func (u *unreadSecret) note(unread string, now time.Time) (logs bool) {
	switch {
	case unread == "":
		*u = unreadSecret{}
	case u.since.IsZero():
		u.since = now
	case !u.logged && now.Sub(u.since) >= unreadTolerance:
		u.logged = true
		return true
	}
	return false
}

// get returns the Secret with the given name, or nil if the LogCluster owns no such Secret. synced
// is false while this is not known.
func (w *secretWatches) get(ctx context.Context, cluster *v1alpha1.LogCluster, name string) (
	secret *corev1.Secret, synced bool, err error) {
	watch, ok := w.watches[name]
	if !ok {
		if watch, err = w.start(ctx, name); err != nil {
			return nil, false, fmt.Errorf("watch secret %s: %w", name, err)
		}
		w.watches[name] = watch
	}
	informer, err := watch.GetInformer(ctx, &corev1.Secret{}, cache.BlockUntilSynced(false))
	if err != nil || !informer.HasSynced() {
		return nil, false, err
	}
	secret = &corev1.Secret{}
	err = watch.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: name}, secret)
	switch {
	case apierrors.IsNotFound(err):
		return nil, true, nil
	case err != nil:
		return nil, false, err
	case !metav1.IsControlledBy(secret, cluster):
		return nil, true, nil
	}
	return secret, true, nil
}

// start starts a watch. changed is also called when the first list has been read.
func (w *secretWatches) start(ctx context.Context, name string) (cache.Cache, error) {
	watch, err := cache.New(w.config, cache.Options{
		Scheme: w.scheme, Mapper: w.mapper, HTTPClient: w.http,
		DefaultNamespaces:            map[string]cache.Config{w.namespace: {}},
		DefaultUnsafeDisableDeepCopy: new(true),
		DefaultTransform:             cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Secret{}: {Field: fields.OneTermEqualSelector("metadata.name", name)},
		},
	})
	if err != nil {
		return nil, err
	}
	informer, err := watch.GetInformer(ctx, &corev1.Secret{}, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, err
	}
	if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { w.changed() },
		UpdateFunc: func(any, any) { w.changed() },
		DeleteFunc: func(any) { w.changed() },
	}); err != nil {
		return nil, err
	}
	w.running.Go(func() { _ = watch.Start(ctx) }) // Start fails only if it is called twice
	return watch, nil
}
