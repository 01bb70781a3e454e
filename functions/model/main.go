// Command model is the Lambda function that asks the model for one round of a run.
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
	lambda.Start(app.Step(a.Runs.CallModel))
}
