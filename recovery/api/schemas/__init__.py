"""What the OpenAPI document says about bodies and answers, made from the very code that checks and renders them."""
