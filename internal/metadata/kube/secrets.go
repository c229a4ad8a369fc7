package kube

import (
	"context"
	"fmt"
	"net/http"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// secretWatches watch the Secrets with SCRAM verifiers, each by its name: the Role of brokers names
// the Secrets that they may read. The shards have numbers without gaps, and the Role contains one
// more than exist, so the watches are those of the existing shards and of the next one.
//
// Only the goroutine of follow uses it. Each watch has a goroutine, which ends with the ctx of
// ensure.
type secretWatches struct {
	config    *rest.Config
	http      *http.Client
	mapper    meta.RESTMapper
	scheme    *runtime.Scheme
	namespace string
	changed   func() // a Secret has changed

	watches map[string]cache.Cache // by name of the Secret
	running sync.WaitGroup
}

// read returns the Secrets that exist: the shards, and that of admin clients. It starts missing
// watches. complete is false until every watch has delivered its Secret, or that it does not exist.
func (w *secretWatches) read(ctx context.Context, cluster *v1alpha1.LogCluster) (
	secrets []*corev1.Secret, complete bool, err error) {
	if !cluster.Spec.Listeners.Authenticate() {
		return nil, true, nil
	}
	secret, complete, err := w.get(ctx, v1alpha1.ScramAdminSecretName(cluster.Name))
	for shard := 0; complete && err == nil; shard++ {
		if secret != nil {
			secrets = append(secrets, secret)
		} else if shard > 0 {
			return secrets, true, nil
		}
		secret, complete, err = w.get(ctx, v1alpha1.ScramSecretName(cluster.Name, shard))
	}
	return nil, false, err
}

// get returns a Secret, nil if it does not exist. synced is false while this is not known.
func (w *secretWatches) get(ctx context.Context, name string) (secret *corev1.Secret, synced bool,
	err error) {
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
	}
	return secret, true, nil
}

// start starts a watch. changed is called also when the first list has been read.
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
	w.running.Go(func() { _ = watch.Start(ctx) }) // fails only if it is started twice
	return watch, nil
}
