package main

import (
	"context"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

// bootstrap keeps the one process of the streamed function alive. Where Lambda has an environment for each request, this process
// polls for many at once, which aws-lambda-go does when AWS_LAMBDA_MAX_CONCURRENCY is set.
type bootstrap struct {
	function    *function
	queue       *queue
	folder      string
	runtimeAPI  string
	concurrency int
	pidFile     string
}

// A process that dies at once is started again more and more slowly.
const (
	firstPause = 50 * time.Millisecond
	longPause  = 5 * time.Second
	healthy    = 10 * time.Second
)

// supervise starts the process again whenever it ends, until ctx does.
func (b *bootstrap) supervise(ctx context.Context) {
	pause := firstPause
	for ctx.Err() == nil {
		began := time.Now()
		err := b.runOnce(ctx)
		b.queue.fail()
		if ctx.Err() != nil {
			return
		}
		log.Printf("the process of %s has ended: %v", b.function.name, err)
		if time.Since(began) > healthy {
			pause = firstPause
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		pause = min(2*pause, longPause)
	}
}

func (b *bootstrap) runOnce(ctx context.Context) error {
	process := exec.CommandContext(ctx, filepath.Join(b.folder, "bootstrap"))
	process.Dir = b.folder
	process.Env = b.function.environment(b.folder, b.runtimeAPI, b.concurrency)
	process.Stdout, process.Stderr = os.Stdout, os.Stderr
	process.WaitDelay = time.Second
	if err := process.Start(); err != nil {
		return err
	}
	if b.pidFile != "" {
		// Fault tests send a signal to whom it names.
		if err := os.WriteFile(b.pidFile, []byte(strconv.Itoa(process.Process.Pid)+"\n"), 0o600); err != nil {
			log.Print(err)
		}
	}
	return process.Wait()
}
