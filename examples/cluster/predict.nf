// Predict in Nextflow: one task per file and shard, the answers in one table.
//
//   nextflow run predict.nf --model runs/genus --input 'reads/*.fa.gz' --shards 8

params.model = null
params.input = null
params.shards = 8
params.output = 'answers'

process PREDICT {
    tag "${sequences.name} ${index}/${params.shards}"
    cpus 4
    memory '8 GB'
    // a task that ran out of time goes on where it was only in its own folder: it starts again here
    errorStrategy 'retry'
    maxRetries 2

    input:
    tuple path(sequences), val(index)
    path model

    output:
    path "*.tsv"

    script:
    """
    export OMP_NUM_THREADS=${task.cpus}
    hf-mixers predict ${model} ${sequences} --shard ${index}/${params.shards} --output ${sequences.simpleName}-${index}.tsv
    """
}

workflow {
    files = Channel.fromPath(params.input, checkIfExists: true)
    tasks = files.combine(Channel.of(0..<params.shards))
    model = Channel.fromPath(params.model, checkIfExists: true).first()
    PREDICT(tasks, model)
        .collectFile(name: 'answers.tsv', storeDir: params.output, keepHeader: true, sort: true)
}
