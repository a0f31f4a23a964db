// Inserts an order and its job in one transaction, and the job a second time. It also runs with pgx 4, whose import path ends in v4.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/jackc/pgx/v5"
)

func run(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	tx, err := conn.Begin(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback(ctx) // does nothing after the commit
	if _, err := tx.Exec(ctx, "INSERT INTO customer_order (number) VALUES ($1)", 7); err != nil {
		return err
	}
	args := map[string]any{"order": 7}
	policy := map[string]any{"keys": []string{"args"}}
	for i := 0; i < 2; i++ {
		var id, state string
		var duplicate bool
		err := tx.QueryRow(ctx,
			"SELECT id::text, state, duplicate FROM uniqueue.insert_job($1, $2, queue => $3, unique_policy => $4)",
			"invoice.send", args, "mail", policy,
		).Scan(&id, &state, &duplicate)
		if err != nil {
			return err
		}
		if duplicate {
			fmt.Println("duplicate", state)
		} else {
			fmt.Println("inserted", state)
		}
	}
	return tx.Commit(ctx)
}

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}
