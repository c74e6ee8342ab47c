package main

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"
)

// call asks another service in a request's name.
type call func(ctx context.Context, rid string) error

// asks gives how a request asks the database and the service behind.
func asks(kind string, query, down call) call {
	one := func(ctx context.Context, rid string) error {
		if err := query(ctx, rid); err != nil {
			return err
		}
		return down(ctx, rid)
	}
	switch kind {
	case "fan-out":
		return func(ctx context.Context, rid string) error {
			all, ctx := errgroup.WithContext(ctx)
			for _, ask := range []call{down, query, down} {
				all.Go(func() error { return ask(ctx, rid) })
			}
			return all.Wait()
		}
	case "fired":
		return func(ctx context.Context, rid string) error {
			err := one(ctx, rid)
			go func() {
				time.Sleep(5 * time.Millisecond) // until the reply is sent
				for range 2 {
					query(context.Background(), "later")
				}
			}()
			return err
		}
	case "pool":
		return pool(make(chan job, 64), one)
	case "pool-direct":
		return pool(make(chan job), one)
	}
	return one
}

type job struct {
	ctx  context.Context
	rid  string
	done chan error
}

func pool(jobs chan job, ask call) call {
	for range 8 {
		go func() {
			for j := range jobs {
				j.done <- ask(j.ctx, j.rid)
			}
		}()
	}
	return func(ctx context.Context, rid string) error {
		done := make(chan error, 1)
		jobs <- job{ctx, rid, done}
		return <-done
	}
}
