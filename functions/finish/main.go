// Command finish is the Lambda function that ends runs, and does what is wanted after the answer.
package main

import (
	"context"
	"log"

	"github.com/aws/aws-lambda-go/lambda"

	"toolrounds/shared/app"
)

func main() {
	a, err := app.New(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	lambda.Start(app.Step(a.End))
}
